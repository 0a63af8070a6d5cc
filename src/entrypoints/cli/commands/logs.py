"""`cronhare logs`, which is `cronhare executions logs` too."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.reading.output import CutShort, Followed, Moved, Written
from cronhare.application.worker.leases import EVERY
from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.texts.moments import say_moment, say_time
from cronhare.domain.texts.printable import echo, printable
from cronhare.domain.texts.words import counted
from cronhare.ports import LedgerUnmade

from ..completion import runs
from ..described import say_pause
from ..errors import Refusal
from ..options import one_of
from ..output import Json, json_line, moment, print_json, print_line, printable_lines
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
        one_of(
            "The execution's number, or a schedule: its newest run.", runs, metavar="ID|SCHEDULE"
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
        execution_id = once_made(lambda: _number(opened(container).queries(), which, waits=True))
        looks = Looks()
        events = container.queries().follow(execution_id, pause=looks.pause)
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


_ENDED: Final = {State.SUCCEEDED: "it has succeeded", State.FAILED: "it has failed for good"}


def under_headings(events: Iterable[Followed], stamp: Callable[[], str]) -> None:
    """Print lines with control characters escaped, a heading where attempt or stream changes.

    *stamp* is what stands in front of a line.
    """
    heading = None
    for event in _flushed(events):
        match event:
            case Written(attempt=attempt, stream=stream, line=line):
                if heading != (attempt, stream):
                    heading = attempt, stream
                    print_line(f"--- attempt {attempt}, {stream}", style="bold")
                if line.left_out:
                    print_line(f"--- [{_lines_left_out(line.left_out)}]", style="bold")
                sys.stdout.write(f"{stamp()}{printable(line.text.removesuffix(chr(13)))}\n")
            case _:
                _print_aside(event)


def as_it_was_written(events: Iterable[Followed]) -> None:
    """Print the output alone, control characters and all."""
    for event in _flushed(events):
        match event:
            case Written(line=line):
                if line.left_out:
                    sys.stderr.write(f"[{_lines_left_out(line.left_out)}]\n")
                sys.stdout.write(line.text + ("\n" if line.is_ended else ""))
            case _:
                _print_aside(event)


def as_json_lines(events: Iterable[Followed]) -> None:
    """Print an object for each line of output, and for each state of the execution."""
    for event in _flushed(events):
        sys.stdout.write(f"{json_line(_as_object(event))}\n")


def _as_object(event: Followed) -> dict[str, Any]:
    match event:
        case Written(attempt=attempt, stream=stream, line=line):
            place = {"attempt": attempt, "stream": stream, "line": line.number, "text": line.text}
            return place | ({"left_out": line.left_out} if line.left_out else {})
        case CutShort(attempt=attempt, as_of=as_of):
            return {"attempt": attempt, "cut_short_at": as_of}
        case Moved(execution):
            return {
                "execution": execution.id,
                "state": execution.state,
                "attempt": execution.attempt,
                "next_attempt_at": execution.next_attempt_at,
            }


def _flushed(events: Iterable[Followed]) -> Iterator[Followed]:
    """Let each line be seen before the next is waited for."""
    for event in events:
        yield event
        sys.stdout.flush()


def _lines_left_out(lines: int) -> str:
    return f"{counted(lines, 'line')} left out: written faster than they are kept"


def _print_aside(event: Followed) -> None:
    """Say on stderr what is no output: that may be piped on."""
    match event:
        case Moved(execution):
            sys.stderr.write(f"{printable(_said_state(execution))}\n")
        case CutShort(attempt=attempt, as_of=as_of):
            at = say_moment(as_of)
            text = f"Attempt {attempt} was lost: what it wrote after {at} is not known"
            sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _said_state(execution: Execution) -> str:
    begins = execution.next_attempt_at
    match execution.state:
        case State.RUNNING:
            owner = execution.owner or "a worker"
            doing = f"attempt {execution.attempt} runs at {owner}"
        case State.RETRYING:
            at = f" at {say_moment(begins)}" if begins else ""
            doing = f"attempt {execution.attempt} begins{at}; {execution.last_error}"
        case State.CLAIMED | State.PUBLISHED:
            doing = "it waits for a worker"
        case _:
            why = f": {execution.last_error}" if execution.last_error else ""
            doing = f"{_ENDED.get(execution.state, f'it is {execution.state}')}{why}"
    return f"Execution {execution.id} of {execution.schedule_name}: {doing}"


Found = TypeVar("Found")

#: So long a ledger is waited for that somebody may be making, and what comes into it at first.
MOST_WAITED: Final = 60.0
_LOOK_EVERY: Final = 0.5


def once_made(
    find: Callable[[], Found],
    *,
    pause: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Found:
    """Find something in a ledger; wait for both if there is no ledger yet."""
    until = None
    while True:
        try:
            return find()
        except (LedgerUnmade, NotFound) as error:
            if until is None:
                if isinstance(error, NotFound):
                    raise
                until = monotonic() + MOST_WAITED
                _say_waits_for_ledger(error)
            elif monotonic() >= until:
                raise
        pause(_LOOK_EVERY)


def _say_waits_for_ledger(error: LedgerUnmade) -> None:
    waits = f"`cronhare up` may be making it: that is waited for, up to {MOST_WAITED:.0f} s"
    sys.stderr.write(f"{printable(str(error))}. {waits}; Ctrl-C ends that.\n")
    sys.stderr.flush()
