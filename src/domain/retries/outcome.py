"""How an attempt ended."""

import enum
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs
import msgspec

from ..texts.printable import shortened


class ErrorClass(enum.StrEnum):
    """Whether a failure is worth a retry."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    RATE_LIMITED = "rate-limited"
    UNKNOWN = "unknown"


#: Every other code is unknown, and retried (S0.10 in docs/compatibility.md).
CLASS_OF_CODE = {
    "ECONNREFUSED": ErrorClass.TRANSIENT,
    "ETIMEDOUT": ErrorClass.TRANSIENT,
    "ENOTFOUND": ErrorClass.TRANSIENT,
    "AUTH_INVALID": ErrorClass.PERMANENT,
    "RESOURCE_NOT_FOUND": ErrorClass.PERMANENT,
}


#: In characters, with the middle left out: the beginning names the error, the end of a stack its
#: cause. All of it goes into log lines, rows and messages.
LONGEST_MESSAGE, LONGEST_CODE, LONGEST_STACK = 4 * 1024, 64, 16 * 1024

#: The most names of an exception's class and its bases.
MOST_TYPES = 8


def _message(text: str) -> str:
    return shortened(text, LONGEST_MESSAGE)


def _code(text: str | None) -> str | None:
    return None if text is None else shortened(text, LONGEST_CODE)


def _stack(text: str | None) -> str | None:
    return None if text is None else shortened(text, LONGEST_STACK)


def _types(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(shortened(name, LONGEST_CODE) for name in names[:MOST_TYPES])


@attrs.frozen(kw_only=True)
class TaskError:
    """What went wrong, as the task or its supervisor says, cut to what can be kept.

    *types* are the names of an exception's class and of its bases, the class first. A server asked
    to be left alone for *retry_after*, or until *retry_at*.

    >>> TaskError(message="wide", code="E" * 100).code == shortened("E" * 100, LONGEST_CODE)
    True
    """

    message: str = attrs.field(converter=_message)
    code: str | None = attrs.field(default=None, converter=_code)
    error_class: ErrorClass = ErrorClass.UNKNOWN
    types: tuple[str, ...] = attrs.field(default=(), converter=_types)
    retry_after: timedelta | None = None
    retry_at: datetime | None = None
    stack: str | None = attrs.field(default=None, converter=_stack)

    def as_json(self) -> str:
        """Encode it as the ledger keeps it."""
        return msgspec.json.encode(self).decode()


def mark_of_class(error_class: ErrorClass) -> str:
    """Give the part of `TaskError.as_json` by which errors of a class are found in the ledger.

    No message can hold it by chance: quotes are escaped in there.

    >>> error = TaskError(message=mark_of_class(ErrorClass.PERMANENT))
    >>> [mark_of_class(each) in error.as_json() for each in ErrorClass]
    [False, False, False, True]
    """
    return f'"error_class":"{error_class.value}"'


def mark_of_code(code: str) -> str:
    """Give the part of `TaskError.as_json` by which errors of a code are found, likewise."""
    return f'"code":{msgspec.json.encode(code).decode()}'


#: Between these `TaskError.as_json` has its message; no text holds them, as quotes are escaped.
MESSAGE_BEGINS: Final = '"message":"'
MESSAGE_ENDS: Final = '","'


def as_in_message(part: str) -> str:
    """Write a part of a message as `TaskError.as_json` has it."""
    return msgspec.json.encode(part).decode()[1:-1]


def classify(code: str | None) -> ErrorClass:
    """Classify a failure by its error code.

    >>> classify("ETIMEDOUT")
    <ErrorClass.TRANSIENT: 'transient'>
    >>> classify("ESOMETHING")
    <ErrorClass.UNKNOWN: 'unknown'>
    """
    return CLASS_OF_CODE.get(code or "", ErrorClass.UNKNOWN)


class Ending(enum.StrEnum):
    """The ways in which an attempt ends."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # reported a failure, or an exit code other than 0
    TIMED_OUT = "timed-out"  # ended by us at its deadline
    CRASHED = "crashed"  # ended by a signal that was not ours
    INTERRUPTED = "interrupted"  # ended by us, because the worker shuts down
    CANCELLED = "cancelled"  # ended by us, on request
    LOST = "lost"  # its worker vanished


#: Ends that nobody chose: an execution with too many of them is a poison pill.
CRASHES = frozenset({Ending.CRASHED, Ending.LOST})


@attrs.frozen(kw_only=True)
class Outcome:
    """One attempt's end. *error* is given for every ending but success."""

    ending: Ending
    exit_code: int | None = None
    signal: int | None = None
    error: TaskError | None = None

    @property
    def in_brief(self) -> str:
        """The end without any text of the task.

        >>> Outcome(ending=Ending.FAILED, exit_code=3, error=TaskError(message="no")).in_brief
        'failed, exit code 3'
        """
        if self.signal is not None:
            return f"{self.ending}, signal {self.signal}"
        return f"{self.ending}, exit code {self.exit_code}" if self.exit_code else str(self.ending)
