"""What a task may say through its IPC pipe: one JSON object per line.

The first forms are those of S1.13 in docs/compatibility.md.
"""

from datetime import timedelta
from typing import Any

import attrs
import msgspec

from cronhare.domain.retries.outcome import ErrorClass, TaskError, classify

from .lines import Line

#: Of a line, in bytes. What it says is cut to less: see `TaskError`.
LONGEST_MESSAGE = 64 * 1024
#: A fraction is meant; whoever counts instead may do so.
LARGEST_PROGRESS = 10**15
LONGEST_RETRY_AFTER = timedelta(days=366)


class BrokenMessage(ValueError):
    """A line that is none of the messages; its text says why."""


@attrs.frozen
class Finished:
    """`{"finish": pid}`: the work is done."""


@attrs.frozen
class Failed:
    """`{"failed": true, "error": {…}}`: the work cannot be done."""

    error: TaskError


@attrs.frozen
class Progress:
    """`{"progress": 0.4}`: alive and working. The deadline starts anew."""

    value: float


def read_message(line: Line) -> Finished | Failed | Progress:
    """Read one line.

    >>> read_message(Line(b'{"progress": 0.4}'))
    Progress(value=0.4)

    Raises:
        BrokenMessage: it is too long, not JSON, or no message that we know.
    """
    if line.cut:
        raise BrokenMessage(f"longer than {LONGEST_MESSAGE // 1024} KiB")
    try:
        return _understood(msgspec.json.decode(line.data))
    except BrokenMessage:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenMessage(f"not JSON: {error}") from error
    except Exception as error:  # a task may write anything: none of it is a fault of ours
        raise BrokenMessage(f"{type(error).__name__}: {error}") from error


def _understood(message: Any) -> Finished | Failed | Progress:  # noqa: ANN401 - any JSON value
    match message:
        case {"failed": True}:
            return Failed(_error(message.get("error")))
        case {"progress": int() | float() as value} if not isinstance(value, bool):
            if (
                not -LARGEST_PROGRESS <= value <= LARGEST_PROGRESS
            ):  # as it came: it may fit no float
                raise BrokenMessage("a progress is between 0 and 1, and at most 10^15")
            return Progress(float(value))
        case {"finish": finish} if finish is not False and finish is not None:
            return Finished()
    raise BrokenMessage('neither "finish" nor "failed" nor "progress"')


def _error(said: object) -> TaskError:
    if not isinstance(said, dict):
        return TaskError(message=_text(said) or "failed without a message")
    code = _text(said.get("code"))
    retry_after = _retry_after(said.get("retry_after_ms"))
    return TaskError(
        message=_text(said.get("message")) or "failed without a message",
        code=code,
        error_class=_class(said.get("class"), code, retry_after),
        retry_after=retry_after,
        stack=_text(said.get("stack")),
    )


def _class(said: object, code: str | None, retry_after: timedelta | None) -> ErrorClass:
    if isinstance(said, str) and said in list(ErrorClass):
        return ErrorClass(said)
    return ErrorClass.RATE_LIMITED if retry_after is not None else classify(code)


def _retry_after(milliseconds: object) -> timedelta | None:
    """A wait that makes sense, or None: a task's slip must not park its schedule for an age."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    longest = LONGEST_RETRY_AFTER / timedelta(milliseconds=1)
    if not 0 <= milliseconds <= longest:  # before it has to fit a float
        return None
    return timedelta(milliseconds=milliseconds)


def _text(said: object) -> str | None:
    """Text as it is, anything else as JSON, nothing as None."""
    if said is None or isinstance(said, str):
        return said
    return msgspec.json.encode(said).decode()
