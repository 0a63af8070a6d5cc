"""`cronhare logs`, which is `cronhare executions logs` too."""

import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cronhare.application.administration.reading.output import CutShort, Followed, Moved, Written
from cronhare.application.worker.leases import EVERY
from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.texts.moments import say_time
from cronhare.domain.texts.printable import echo, printable
from cronhare.domain.texts.words import counted

from ..errors import Refusal
from ..options import one_of, runs
from ..output import Json, json_line, print_error, print_json, print_line, printable_lines
from ..times import display_zone, moment
from ..wiring import open_ledger
from .schedules import say_pause

if TYPE_CHECKING:
    from cronhare.application.administration.reading.queries import Queries
    from cronhare.application.administration.views.executions import ExecutionView
    from cronhare.application.administration.views.schedules import ScheduleView
    from cronhare.ports.runner import Captured


def logs(
    which: Annotated[
        str,
        one_of(
            "The execution's number, or a schedule: its newest run.", runs, metavar="ID|SCHEDULE"
        ),
    ],
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended, or Ctrl-C.")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="As it was written, control characters and all, without headings."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Print what the attempts of an execution wrote, with control characters escaped.

    With --follow the first run of a schedule is waited for that has none yet, and each line has the
    time at which it was seen in front, unless it was there before or is --raw; with --json too each
    line is one of JSON.
    """
    if follow:
        _follow(which, raw=raw, json=json)
        return
    queries = open_ledger().queries()
    found = queries.output(_number(queries, which, waits=False))
    if json:
        print_json(found.outputs)
        return
    for output in found.outputs:
        for name, stream in (("stdout", output.stdout), ("stderr", output.stderr)):
            if raw:
                sys.stdout.write(stream.head + stream.tail)
            elif stream.bytes:
                up_to = f", up to {moment(output.as_of)}" if output.as_of else ""
                _print_stream(f"attempt {output.attempt}, {name}{up_to}", stream)
    if found.execution.state is State.RUNNING:
        shown = next((output.as_of for output in found.outputs if output.running), None)
        print_error(_still_runs(found.execution, shown, queries.now()))
    elif not found.outputs and not raw:
        print_line("Nothing was written.")


def _number(queries: "Queries", which: str, *, waits: bool) -> int:
    if not (which.isascii() and which.isdigit()):
        if waits:
            return queries.newest_or_first(which, pause=time.sleep, on_wait=_say_waits)
        return queries.newest(which)
    number = int(which) if len(which) <= len(str(LARGEST_ID)) else 0
    if not 0 < number <= LARGEST_ID:
        raise Refusal(f"{echo(which)} is no number of an execution, 1-{LARGEST_ID}")
    return number


def _say_waits(schedule: "ScheduleView") -> None:
    due, name, pause = schedule.next_due_at, schedule.name, schedule.pause
    if not schedule.status:
        when = f"it is disabled, and `cronhare schedules enable {name}` switches it on"
    # One that nothing begins by itself is held up by no pause: `cronhare run` does as ever.
    elif pause is not None and pause.on and (schedule.stay_alive or schedule.has_times):
        when = f"it is paused {say_pause(pause)}; `cronhare schedules resume {name}` ends that"
    elif not schedule.planned:
        when = "no scheduler has looked at it yet, `cronhare up` does"
    elif due is None:
        when = f"`cronhare run {name}` begins one"
    else:
        when = f"it is due at {moment(due)}"
    waits = "Its first run is waited for; Ctrl-C ends that."
    print_error(f"Schedule {name} has not run yet: {when}. {waits}")


def _still_runs(execution: "ExecutionView", shown: datetime | None, now: datetime) -> str:
    runs = f"Attempt {execution.attempt} still runs at {execution.owner or 'a worker'}"
    age = (
        f"nothing that it wrote is kept so far, which takes up to {2 * EVERY:.0f} s"
        if shown is None
        else f"what it had written {max((now - shown).total_seconds(), 0):.0f} s ago is shown"
    )
    elsewhere = f"The log of that worker has all, with execution={execution.id}."
    return f"{runs}; {age}. With -f more is shown as it comes. {elsewhere}"


def _print_stream(name: str, stream: "Captured") -> None:
    print_line(f"--- {name}, {stream.bytes} bytes", style="bold")
    sys.stdout.write(printable_lines(stream.head).removesuffix("\n") + "\n")
    if stream.tail:
        print_line("--- [what lies between was not kept]", style="bold")
        sys.stdout.write(printable_lines(stream.tail).removesuffix("\n") + "\n")


def _follow(which: str, *, raw: bool, json: bool) -> None:
    queries, waited = open_ledger().queries(), list[float]()
    execution_id = _number(queries, which, waits=True)

    def pause(seconds: float) -> None:
        waited.append(seconds)
        time.sleep(seconds)

    def stamp() -> str:
        """Say when a line was seen, unless it was there at the first look, maybe for long."""
        shown = say_time(datetime.now(UTC), display_zone())
        return f"{shown if waited else ' ' * len(shown)}  "

    events = queries.follow(execution_id, pause=pause)
    if json:
        for event in events:
            sys.stdout.write(f"{json_line(_as_object(event))}\n")
            sys.stdout.flush()
    else:
        _print_followed(events, stamp, raw=raw)


def _print_followed(events: Iterable[Followed], stamp: Callable[[], str], *, raw: bool) -> None:
    """Print each line before the next is waited for, with headings where attempt or stream change.

    What is no output is on standard error.
    """
    heading = None
    for event in events:
        if not isinstance(event, Written):
            print_error(_said(event))
            continue
        line, place = event.line, (event.attempt, event.stream)
        if heading != place and not raw:
            print_line(f"--- attempt {event.attempt}, {event.stream}", style="bold")
        heading = place
        if line.left_out:
            lines = counted(line.left_out, "line")
            lost = f"[{lines} left out: written faster than they are kept]"
            if raw:
                print_error(lost)
            else:
                print_line(f"--- {lost}", style="bold")
        if raw:
            sys.stdout.write(line.text + ("\n" if line.is_ended else ""))
        else:
            sys.stdout.write(f"{stamp()}{printable(line.text.removesuffix(chr(13)))}\n")
        sys.stdout.flush()


def _as_object(event: Followed) -> dict[str, Any]:
    match event:
        case Written(attempt=attempt, stream=stream, line=line):
            place = {"attempt": attempt, "stream": stream, "line": line.number, "text": line.text}
            return place | ({"left_out": line.left_out} if line.left_out else {})
        case CutShort(attempt=attempt, as_of=as_of):
            return {"attempt": attempt, "cut_short_at": as_of}
        case Moved(execution):
            fields = ("state", "attempt", "next_attempt_at")
            return {"execution": execution.id} | {
                field: getattr(execution, field) for field in fields
            }


_ENDED: Final = {State.SUCCEEDED: "it has succeeded", State.FAILED: "it has failed for good"}


def _said(event: Moved | CutShort) -> str:
    if isinstance(event, CutShort):
        at = moment(event.as_of)
        return f"Attempt {event.attempt} was lost: what it wrote after {at} is not known"
    execution = event.execution
    doing = _doing(execution)
    return f"Execution {execution.id} of {execution.schedule_name}: {doing}"


def _doing(execution: Execution) -> str:
    begins, state = execution.next_attempt_at, execution.state
    match state:
        case State.RUNNING:
            return f"attempt {execution.attempt} runs at {execution.owner or 'a worker'}"
        case State.RETRYING:
            at = f" at {moment(begins)}" if begins else ""
            return f"attempt {execution.attempt} begins{at}; {execution.last_error}"
        case State.CLAIMED | State.PUBLISHED:
            return "it waits for a worker"
    why = f": {execution.last_error}" if execution.last_error else ""
    return f"{_ENDED.get(state, f'it is {state}')}{why}"
