"""What an execution writes while it is followed: for people, as it was written, and as JSON."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from cronhare.application.administration.reading.output import CutShort, Followed, Moved, Written
from cronhare.domain.execution import Execution, State
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import printable
from cronhare.domain.texts.words import counted

from .output import json_line, print_line

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
                    print_line(f"--- [{_left_out(line.left_out)}]", style="bold")
                sys.stdout.write(f"{stamp()}{printable(line.text.removesuffix(chr(13)))}\n")
            case _:
                _print_aside(event)


def as_it_was_written(events: Iterable[Followed]) -> None:
    """Print the output alone, control characters and all."""
    for event in _flushed(events):
        match event:
            case Written(line=line):
                if line.left_out:
                    sys.stderr.write(f"[{_left_out(line.left_out)}]\n")
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


def _left_out(lines: int) -> str:
    return f"{counted(lines, 'line')} left out: written faster than they are kept"


def _print_aside(event: Followed) -> None:
    """Say on stderr what is no output: that may be piped on."""
    match event:
        case Moved(execution):
            sys.stderr.write(f"{printable(_said(execution))}\n")
        case CutShort(attempt=attempt, as_of=as_of):
            at = say_moment(as_of)
            text = f"Attempt {attempt} was lost: what it wrote after {at} is not known"
            sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _said(execution: Execution) -> str:
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
