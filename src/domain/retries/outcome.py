"""How an attempt ended: its error, its class, what a server asked for, and crashes.

Crashes make a poison pill (S2.8, C19, C36 in docs/compatibility.md).
"""

import enum
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final, Self

import attrs
import msgspec

from ..nodes import was_ahead
from ..reading import MILLISECONDS, Fault, Invalid, Reads, whole_number
from ..texts.moments import say_duration
from ..texts.printable import echo, shortened


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


#: The code of an attempt whose app could not be imported: its task has not begun.
NOT_IMPORTED = "APP_NOT_IMPORTED"

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
    """

    message: str = attrs.field(converter=_message)
    code: str | None = attrs.field(default=None, converter=_code)
    error_class: ErrorClass = ErrorClass.UNKNOWN
    types: tuple[str, ...] = attrs.field(default=(), converter=_types)
    retry_after: timedelta | None = None
    retry_at: datetime | None = None
    stack: str | None = attrs.field(default=None, converter=_stack)

    def as_json(self) -> str:
        return msgspec.json.encode(self).decode()


def classify(code: str | None) -> ErrorClass:
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
    SNOOZED = "snoozed"  # its task asked to be run again later


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


#: A task may ask to be run again after so long, at no cost; what is shorter or longer counts as
#: the nearest of these.
SNOOZES: Final = (timedelta(seconds=1), timedelta(days=7))


def snoozed(wait: timedelta) -> Outcome:
    shortest, longest = SNOOZES
    wait = min(max(wait, shortest), longest)
    text = f"snoozed for {say_duration(timedelta(seconds=round(wait.total_seconds())))}"
    return Outcome(
        ending=Ending.SNOOZED, exit_code=0, error=TaskError(message=text, retry_after=wait)
    )


#: What an error is known by, and the class of it.
ErrorRules = Mapping[str, ErrorClass]

#: The classes that a file may give, each with a list of codes, exceptions and exit statuses.
GIVEN: Final = (ErrorClass.TRANSIENT, ErrorClass.PERMANENT, ErrorClass.RATE_LIMITED)

#: The most errors that one table may name.
MOST_ERRORS: Final = 100

EXIT: Final = "exit:"
_ENTRY: Final = re.compile(
    rf"{EXIT}(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])|(?!{EXIT})[^\s:]{{1,{LONGEST_CODE}}}", re.ASCII
)
_ALLOWED: Final = (
    f"a code such as ECONNRESET or an exception such as TimeoutError, of at most {LONGEST_CODE} "
    f"letters, or an exit status that fails, {EXIT}1 to {EXIT}255"
)


def read_error_rules(table: object) -> ErrorRules:
    """Read `{ transient = ["ECONNRESET", "exit:75"], permanent = ["KeyError"] }`.

    >>> read_error_rules({"permanent": ["exit:78"]})
    {'exit:78': <ErrorClass.PERMANENT: 'permanent'>}

    Raises:
        Invalid: with every fault at once.
    """
    names = ", ".join(GIVEN)
    if not isinstance(table, Mapping):
        raise Invalid([Fault("", f"a table is expected, with {names}")])
    faults, rules = list[Fault](), dict[str, ErrorClass]()
    for name, entries in table.items():
        if name not in GIVEN:
            faults.append(Fault("", f"{echo(name)} is no class of errors; there are {names}"))
        elif not isinstance(entries, list) or len(entries) > MOST_ERRORS:
            faults.append(Fault(name, f"a list of at most {MOST_ERRORS} texts is expected"))
        else:
            for entry in entries:
                is_text = isinstance(entry, str) and entry.isprintable()
                if not is_text or not _ENTRY.fullmatch(entry):
                    faults.append(Fault(name, f"{echo(entry)} is not {_ALLOWED}"))
                elif rules.setdefault(entry, ErrorClass(name)) != name:
                    faults.append(Fault(name, f"{echo(entry)} is {rules[entry]} already"))
    if faults:
        raise Invalid(faults)
    return rules


def classified(outcome: Outcome, rules: ErrorRules) -> Outcome:
    """Give the outcome with the class that *rules* have for its error.

    The nearest name counts: the code, the exception's class, its bases. An exit status says least:
    it counts where neither a rule nor the task has given a class. A success has no error.
    """
    error = outcome.error
    if error is None or not rules:
        return outcome
    names = filter(None, (error.code, *error.types))
    named = [rules[name] for name in names if name in rules]
    if not named and error.error_class is ErrorClass.UNKNOWN:
        by_exit = rules.get(f"{EXIT}{outcome.exit_code}")
        named = [] if by_exit is None else [by_exit]
    if not named:
        return outcome
    return attrs.evolve(outcome, error=attrs.evolve(error, error_class=named[0]))


#: A longer one counts as this, jitter included: no server stops a schedule for more than a day.
LONGEST_RETRY_AFTER = timedelta(hours=24)

#: What is longer yet is none: the number of seconds that ten digits hold.
_LONGEST_READ = timedelta(seconds=10**10 - 1)

#: The longest form of a date in HTTP, of RFC 850 (RFC 9110, 5.6.7), has 33 characters.
_LONGEST_TEXT = 40

_SECONDS = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")


def read_retry_after(value: object) -> timedelta | datetime | None:
    """Read a Retry-After: seconds as a number or text, or an HTTP date; None if it is neither.

    >>> read_retry_after(120) == read_retry_after("120")
    True
    >>> read_retry_after("Fri, 12 Dec 2025 08:00:00 GMT").isoformat()
    '2025-12-12T08:00:00+00:00'
    >>> read_retry_after("soon"), read_retry_after(-1), read_retry_after(1e300)
    (None, None, None)
    """
    match value:
        case int() | float():
            return plausible_wait(value, timedelta(seconds=1))
        case str() if len(value) <= _LONGEST_TEXT:
            text = value.strip()
            if _SECONDS.fullmatch(text):
                return plausible_wait(float(text), timedelta(seconds=1))
            return _http_date(text)
    return None


def plausible_wait(number: object, unit: timedelta) -> timedelta | None:
    """Give so many units as a wait, or None if it cannot be one: below nothing, or centuries."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if not 0 <= number <= _LONGEST_READ / unit:  # before the conversion: it may fit no float
        return None
    return timedelta(microseconds=math.ceil(number * (unit / timedelta(microseconds=1))))


def asked_wait(error: TaskError, *, now: datetime) -> timedelta:
    """Say how long a server is left alone from *now* on, as it asked for; nothing if it did not."""
    return min(_said_wait(error, now), LONGEST_RETRY_AFTER)


def note_of_asked_wait(error: TaskError, *, now: datetime) -> str:
    said = _said_wait(error, now)
    if not said:
        return ""
    whole = timedelta(seconds=max(1, round(said.total_seconds())))
    asked = f"it was asked to wait {say_duration(whole)}"
    if said <= LONGEST_RETRY_AFTER:
        return asked
    return f"{asked}, of which {LONGEST_RETRY_AFTER / timedelta(hours=1):.0f}h count"


def _said_wait(error: TaskError, now: datetime) -> timedelta:
    at = timedelta(0) if error.retry_at is None else error.retry_at - now
    return max(timedelta(0), error.retry_after or timedelta(0), at)


def _http_date(text: str) -> datetime | None:
    from email.utils import (  # noqa: PLC0415 - most waits are seconds, and it takes long
        parsedate_to_datetime,
    )

    try:
        moment = parsedate_to_datetime(text)
        # HTTP knows no other zone; one without a zone is UTC likewise.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


#: So many crashes within the window before now make a poison pill, unless a policy says otherwise.
CRASH_LIMIT: Final = 3
CRASH_WINDOW: Final = timedelta(seconds=300)

#: So long a task that is stopped has to end by itself.
TERM_TO_KILL: Final = timedelta(seconds=5)

#: What may be asked for. An older crash than a day says nothing of now.
CRASH_LIMITS: Final = range(1, 100 + 1)
CRASH_WINDOWS_MS: Final = range(1_000, 86_400_000 + 1)

if TYPE_CHECKING:
    _Window = timedelta
else:
    _IN_MS = whole_number(CRASH_WINDOWS_MS, MILLISECONDS)
    _Window = Annotated[int, _IN_MS, Reads(lambda number: number * timedelta(milliseconds=1))]

#: The ends of which a policy may count some as crashes.
MAY_COUNT: Final = CRASHES | {Ending.TIMED_OUT}


class Crash(msgspec.Struct, frozen=True):
    """An attempt that *node* ran, and that ended at *at* as nobody chose."""

    at: datetime
    ending: Ending
    node: str = ""


@attrs.frozen
class PoisonPill:
    """The crashes for which a run is quarantined: how many within the window, and from when on."""

    crash_count: int
    first_crash_at: datetime
    last_crash_at: datetime

    @classmethod
    def of(cls, crashes: Sequence[Crash]) -> Self | None:
        return cls(len(crashes), crashes[0].at, crashes[-1].at) if crashes else None


@attrs.frozen(kw_only=True)
class CrashPolicy:
    """An execution that crashes *limit* times within *window* is a poison pill.

    An endless loop ends at its timeout: that is a crash, too, if *timeouts* says so.
    """

    limit: Annotated[int, whole_number(CRASH_LIMITS)] = CRASH_LIMIT
    window: _Window = CRASH_WINDOW
    timeouts: bool = True

    def is_crash(self, ending: Ending) -> bool:
        return ending in CRASHES or (self.timeouts and ending is Ending.TIMED_OUT)

    def recent(self, crashes: Sequence[Crash], *, now: datetime) -> tuple[Crash, ...]:
        """Pick those within the window before *now*; of a clock that was ahead none counts."""
        return tuple(
            crash
            for crash in crashes
            if self.is_crash(crash.ending)
            and now - crash.at < self.window
            and not was_ahead(crash.at, now)
        )

    def restarts(
        self, interruptions: Sequence[tuple[Crash, timedelta]], *, grace: timedelta, now: datetime
    ) -> tuple[Crash, ...]:
        """Pick the shutdowns that a task may have asked for itself: they began soon after it did.

        Each of *interruptions* comes with how long its task had run. A shutdown begins *grace*, and
        what a process has from TERM to KILL, before it interrupts. Within the same time after the
        task's start is soon. More than *limit* of them are too many; the window has room for so
        many, however long the grace is.
        """
        soon = 2 * grace + TERM_TO_KILL
        window = max(self.window, (self.limit + 1) * soon)
        return tuple(
            crash
            for crash, ran in interruptions
            if ran < soon and now - crash.at < window and not was_ahead(crash.at, now)
        )
