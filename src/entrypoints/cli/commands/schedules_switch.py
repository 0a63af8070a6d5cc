"""`cronhare schedules enable | disable | delete`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.domain.texts.words import listed

from ...node_identity import this_actor
from ..completion import SCHEDULES
from ..jobs_files import load
from ..output import Json, print_json, print_line
from ..wiring import open_ledger, said_ledger
from .schedules_show import Name

if TYPE_CHECKING:
    from cronhare.application.administration.changing.runs import Switched

Names = Annotated[
    list[str],
    typer.Argument(help="The schedules' names.", show_default=False, autocompletion=SCHEDULES),
]


def enable(names: Names, *, json: Json = False) -> None:
    """Let schedules be due again, from now on: what was due meanwhile does not run."""
    _switch(names, on=True, json=json)


def disable(names: Names, *, json: Json = False) -> None:
    """Let no instant of schedules be due, until they are enabled; what runs goes on.

    `cronhare schedules pause` does so with a reason, and records what does not run.
    """
    _switch(names, on=False, json=json)


def delete(
    name: Name,
    *,
    with_history: Annotated[
        bool, typer.Option("--with-history", help="Delete its executions and their output, too.")
    ] = False,
    jobs: Annotated[
        Path | None,
        typer.Option(help="The file that it came from, and is gone from. [env: CRON_JOBS]"),
    ] = None,
) -> None:
    """Delete a schedule that no jobs file names. Its failures stay in the archive."""
    container = open_ledger()
    settings, schedule = container.settings(), container.queries().schedule(name)
    path = None if schedule.source is None else jobs or settings.jobs
    container.schedule_editor().delete(
        schedule.id,
        seen=None,
        actor=this_actor(),
        file=load(path, settings, state="Nothing was deleted.") if path else None,
        with_history=with_history,
    )
    print_line(f"Deleted {name} from {said_ledger(settings)}.")


def _switch(names: Sequence[str], *, on: bool, json: bool) -> None:
    container = open_ledger()
    now = container.ledger_time().now()
    switched = container.administrator().switch(names, on=on, now=now, actor=this_actor())
    if json:
        print_json(switched)
        return
    for each in switched:
        print_line(_said(each))
    for source in dict.fromkeys(each.source for each in switched if each.source):
        of_file = [each.name for each in switched if each.source == source]
        status = str(on).lower()
        print_line(
            f"{source} has the last word on {listed(of_file)}: its next `cronhare apply`, or start "
            f"of `up`, makes that as the file says. To keep it: status = {status} there."
        )


def _said(each: "Switched") -> str:
    word = "on" if each.on else "off"
    was = "" if each.changed else " already"
    broken = f", but its row is broken: {each.problem}" if each.problem else ""
    return f"{each.name} is {word}{was}{broken}."
