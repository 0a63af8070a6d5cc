"""`cronhare logs`, which is `cronhare executions logs` too."""

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.application.worker.leases import EVERY
from cronhare.domain.execution import State
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.texts.moments import say_time
from cronhare.domain.texts.printable import echo, printable

from ..being_made import once_made
from ..completion import runs
from ..errors import Refusal
from ..followed import as_it_was_written, as_json_lines, under_headings
from ..output import Json, moment, print_json, print_line, printable_lines
from ..pauses import say_pause
from ..wiring import open_ledger, opened, wire

if TYPE_CHECKING:
    from cronhare.application.administration.reading.queries import Queries
    from cronhare.application.administration.views.executions import ExecutionView
    from cronhare.application.administration.views.schedules import ScheduleView
    from cronhare.ports.runner import Captured

Raw = Annotated[
    bool,
    typer.Option("--raw", help="As it was written, control characters and all, without headings."),
]


def logs(
    which: Annotated[
        str,
        typer.Argument(
            metavar="ID|SCHEDULE",
            help="The execution's number, or a schedule: its newest run.",
            show_default=False,
            autocompletion=runs,
        ),
    ],
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended, or Ctrl-C.")
    ] = False,
    raw: Raw = False,
    json: Json = False,
) -> None:
    """Print what the attempts of an execution wrote, with control characters escaped.

    With --follow the first run of a schedule is waited for that has none yet, and each line has the
    time at which it was seen in front, unless it was there before or is --raw; with --json too each
    line is one of JSON.
    """
    if follow:
        container = wire()
        queries = container.queries()
        execution_id = once_made(
            lambda: opened(container), lambda _: _number(queries, which, waits=True)
        )
        looks = Looks()
        events = queries.follow(execution_id, pause=looks.pause)
        if json or raw:
            (as_json_lines if json else as_it_was_written)(events)
        else:
            under_headings(events, looks.stamp)
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
                _print_stream(f"attempt {output.attempt}, {name}{_up_to(output.as_of)}", stream)
    if found.execution.state is State.RUNNING:
        shown = next((output.as_of for output in found.outputs if output.running), None)
        # On stderr: the output may be piped on.
        sys.stderr.write(_still_runs(found.execution, shown, queries.now()))
    elif not found.outputs and not raw:
        print_line("Nothing was written.")


class Looks:
    """When a line was seen: what was there at the first look may have been written long before."""

    def __init__(self) -> None:
        """Begin with the first look."""
        self._is_first = True

    def pause(self, seconds: float) -> None:
        """Wait for the next look."""
        self._is_first = False
        time.sleep(seconds)

    def stamp(self) -> str:
        """Say when the last look was, for the front of a line."""
        shown = say_time(datetime.now(UTC))
        return f"{' ' * len(shown) if self._is_first else shown}  "


def _number(queries: "Queries", which: str, *, waits: bool) -> int:
    """Read the number of an execution, or find a schedule's newest run, or wait for its first."""
    if not (which.isascii() and which.isdigit()):
        if waits:
            return queries.newest_or_first(which, pause=time.sleep, on_wait=_say_waits)
        return queries.newest(which)
    number = int(which) if len(which) <= len(str(LARGEST_ID)) else 0
    if not 0 < number <= LARGEST_ID:
        raise Refusal(f"{echo(which)} is no number of an execution, 1-{LARGEST_ID}")
    return number


def _say_waits(schedule: "ScheduleView") -> None:
    """Say on stderr what is waited for, and what would have it come."""
    due, name = schedule.next_due_at, printable(schedule.name)
    pause = schedule.pause
    if not schedule.status:
        when = f"it is disabled, and `cronhare schedules enable {name}` switches it on"
    # One that nothing begins by itself is held up by no pause: `cronhare run` does as ever.
    elif pause is not None and pause.on and (schedule.stay_alive or schedule.has_times):
        ends = f"`cronhare schedules resume {name}` ends that"
        when = f"it is paused {printable(say_pause(pause))}; {ends}"
    elif not schedule.planned:
        when = "no scheduler has looked at it yet, `cronhare up` does"
    elif due is None:
        when = f"`cronhare run {name}` begins one"
    else:
        when = f"it is due at {moment(due)}"
    waits = "Its first run is waited for; Ctrl-C ends that."
    sys.stderr.write(f"Schedule {name} has not run yet: {when}. {waits}\n")
    sys.stderr.flush()


def _up_to(as_of: datetime | None) -> str:
    return f", up to {moment(as_of)}" if as_of else ""


def _still_runs(execution: "ExecutionView", shown: datetime | None, now: datetime) -> str:
    """Say how old the shown output of a running attempt is, and where to read the rest."""
    runs = f"Attempt {execution.attempt} still runs at {printable(execution.owner or 'a worker')}"
    age = (
        f"nothing that it wrote is kept so far, which takes up to {2 * EVERY:.0f} s"
        if shown is None
        else f"what it had written {max((now - shown).total_seconds(), 0):.0f} s ago is shown"
    )
    elsewhere = f"The log of that worker has all, with execution={execution.id}."
    return f"{runs}; {age}. With -f more is shown as it comes. {elsewhere}\n"


def _print_stream(name: str, stream: "Captured") -> None:
    print_line(f"--- {name}, {stream.bytes} bytes", style="bold")
    sys.stdout.write(printable_lines(stream.head).removesuffix("\n") + "\n")
    if stream.tail:
        print_line("--- [what lies between was not kept]", style="bold")
        sys.stdout.write(printable_lines(stream.tail).removesuffix("\n") + "\n")
