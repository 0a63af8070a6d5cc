"""The messages on a task's IPC pipe: one JSON object per line.

`finish` and `failed` are those of S1.13 in docs/compatibility.md.
"""

from datetime import timedelta
from typing import Any

import attrs
import msgspec

from cronhare.domain.retries.outcome import ErrorClass, TaskError, classify

from .lines import Line

#: Bytes of a line. Its texts are cut to less: see `TaskError`.
LONGEST_MESSAGE = 64 * 1024
#: A fraction is meant, but a task may count instead.
LARGEST_PROGRESS = 10**15
LONGEST_RETRY_AFTER = timedelta(days=366)


class BrokenMessage(ValueError):
    """A line is no message; the text says why."""


@attrs.frozen
class Finished:
    """`{"finish": pid}`: the work is done."""


@attrs.frozen
class Failed:
    """`{"failed": true, "error": {…}}`: the work cannot be done."""

    error: TaskError


@attrs.frozen
class Progress:
    """`{"progress": 0.4}`: the work goes on. The timeout starts anew."""

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
        return _message(msgspec.json.decode(line.data))
    except BrokenMessage:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenMessage(f"not JSON: {error}") from error
    except Exception as error:  # a task may write anything: it is no fault of ours
        raise BrokenMessage(f"{type(error).__name__}: {error}") from error


def _message(content: Any) -> Finished | Failed | Progress:  # noqa: ANN401 - any JSON value
    match content:
        case {"failed": True}:
            return Failed(_error(content.get("error")))
        case {"progress": int() | float() as value} if not isinstance(value, bool):
            if not abs(value) <= LARGEST_PROGRESS:  # before the conversion: it may fit no float
                raise BrokenMessage("a progress is between 0 and 1, and at most 10^15")
            return Progress(float(value))
        case {"finish": finish} if finish is not False and finish is not None:
            return Finished()
    raise BrokenMessage('neither "finish" nor "failed" nor "progress"')


def _error(value: object) -> TaskError:
    fields = value if isinstance(value, dict) else {"message": value}
    code = _text(fields.get("code"))
    retry_after = _retry_after(fields.get("retry_after_ms"))
    return TaskError(
        message=_text(fields.get("message")) or "failed without a message",
        code=code,
        error_class=_class(fields.get("class"), code, retry_after),
        retry_after=retry_after,
        stack=_text(fields.get("stack")),
    )


def _class(name: object, code: str | None, retry_after: timedelta | None) -> ErrorClass:
    if isinstance(name, str) and name in list(ErrorClass):
        return ErrorClass(name)
    return ErrorClass.RATE_LIMITED if retry_after is not None else classify(code)


def _retry_after(milliseconds: object) -> timedelta | None:
    """A plausible wait, or None: a task's slip must not stop its schedule for years."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    longest = LONGEST_RETRY_AFTER / timedelta(milliseconds=1)
    if not 0 <= milliseconds <= longest:  # before the conversion: it may fit no float
        return None
    return timedelta(milliseconds=milliseconds)


def _text(value: object) -> str | None:
    """Text as it is, anything else as JSON, null as None."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
