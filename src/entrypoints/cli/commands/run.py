"""`cronhare run`."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from cronhare.application.administration.views.executions import ExecutionView
from cronhare.domain.execution import State

from ...node_identity import this_actor
from ..completion import SCHEDULES
from ..errors import Refusal, Status
from ..execution_output import show_attempts, show_execution
from ..output import Json, print_json, print_line
from ..wiring import open_ledger, said_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.reading.queries import Queries

Name = Annotated[
    str, typer.Argument(help="The schedule's name.", show_default=False, autocompletion=SCHEDULES)
]


def run(
    name: Name,
    *,
    params: Annotated[str | None, typer.Option(help="JSON instead of the schedule's own.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end.")] = False,
    json: Json = False,
) -> None:
    """Run a schedule now; its next due instant does not move.

    With --wait the exit status is 0 if the run succeeded, and 4 if it did not.
    """
    container = open_ledger()
    now = container.ledger_time().now()
    checked = None if params is None else _json(params)
    began = container.administrator().run_now(name, params=checked, now=now, actor=this_actor())
    follow = f"Follow it: cronhare executions show {began.id}"
    ledger = f"Ledger: {said_ledger(container.settings())}"
    text = f"Execution {began.id} ({began.key}) is on its way. {follow}"
    if wait:
        # First, as the wait may be given up; on stderr where the output is for machines.
        said = f"{text}. Ctrl-C ends the wait, and not the run."
        if json:
            sys.stderr.write(f"{said}\n{ledger}\n")
        else:
            print_line(said)
            print_line(ledger)
        raise typer.Exit(_wait(container.queries(), began.id, json=json))
    if json:
        print_json(ExecutionView.of(began, now=now))
    else:
        print_line(text)
        print_line(ledger)
        if container.queries().schedule(name).status is False:
            print_line(
                f"Schedule {name} is disabled: it runs this once, and at no time of its own."
            )


def _wait(queries: "Queries", execution_id: int, *, json: bool) -> Status:
    found = queries.wait_for_end(execution_id, pause=time.sleep, on_silence=_print_silence)
    if json:
        print_json(found.execution)
    else:
        show_execution(found.execution)
        show_attempts(found.attempts)
    return Status.DONE if found.execution.state is State.SUCCEEDED else Status.RUN_FAILED


def _print_silence(execution: ExecutionView) -> None:
    # On stderr: the output may be piped on.
    sys.stderr.write(
        f"Execution {execution.id} is {execution.state}: nobody has taken it up yet. "
        "Why, says `cronhare doctor`.\n"
    )


def _json(text: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refusal(f"--params is not JSON: {error}") from error
