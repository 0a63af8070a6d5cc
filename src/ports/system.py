"""What a process needs beside servers: time, a bell, metrics, traces, other people's servers."""

from __future__ import annotations

import enum
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

import attrs

if TYPE_CHECKING:  # each process has a clock and metrics, whatever it does
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from cronhare.domain.addresses import WebAddress
    from cronhare.domain.execution import Execution, State
    from cronhare.domain.retries.outcome import Ending
    from cronhare.domain.schedules.skips import SkipKind

    from .broker import Published


class ClockPort(Protocol):
    """Tells the time. Two readings, because a wall clock may be set and a stopwatch may not."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC. It may have to ask a server: call it in a thread."""

    def peek(self) -> datetime | None:
        """The present instant if it is known without asking anybody; else None."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. For waits and durations only."""

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Call *callback* whenever a test moves the time. A real clock never does."""


class BellPort(Protocol):
    """Has what was just claimed begun at once, and not with a scheduler's next look.

    It decides nothing, and promises nothing: the ledger has what is claimed, and a scheduler that
    looks finds it, whether or not anybody hears. May be shared between threads.
    """

    @property
    def head_start(self) -> timedelta:
        """For how long schedulers leave to this bell what it is to ring for; zero for a call."""

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """Ring for *executions*, as they were committed at *now*, the ledger's time.

        It takes seconds at most, and never raises: if nobody is reached, a log line says why where
        somebody should have been.
        """


class LaterBellPort(BellPort, Protocol):
    """A bell that nobody waits for, and that can wait for a commit."""

    def ring_once_there(self, ids: Collection[int]) -> None:
        """Ring for executions that a transaction is about to commit, as soon as they are there.

        If they are not within a second or two, it was rolled back, or a scheduler finds them.
        """


class MetricsPort(Protocol):
    """Takes note of events. It never raises, never waits for a server, and keeps no execution.

    Any thread may call it. A call costs microseconds, however many executions it is about.
    """

    def ticked(self) -> None:
        """Due instants were looked for, and the ledger answered."""

    def claimed(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """These were claimed at *now*."""

    def skipped(self, instants: Mapping[SkipKind, int]) -> None:
        """So many due instants were recorded as skipped."""

    def published(self, executions: Sequence[Execution], outcomes: Sequence[Published]) -> None:
        """The messages of these were published just now, each with its outcome."""

    def resent(self, executions: int) -> None:
        """The messages of so many executions were overdue, and are sent again."""

    def lost(self, attempts: int) -> None:
        """So many attempts were given up for lost."""

    def started(self, execution: Execution) -> None:
        """The ledger let an attempt begin."""

    def attempt_ended(self, ending: Ending, *, seconds: float) -> None:
        """An attempt has ended, after so long."""

    def recorded(self, state: State) -> None:
        """The ledger recorded an end, and what follows from it."""

    def superseded(self) -> None:
        """The ledger did not take an end."""

    def fenced(self) -> None:
        """A delivery was not started again."""

    def lease_lost(self) -> None:
        """A running attempt is stopped, as its lease is lost."""

    def quarantined(self) -> None:
        """A delivery was put into quarantine."""


class SilentMetrics(MetricsPort):
    """Counts nothing: nobody asks this process."""


SILENT: Final[MetricsPort] = SilentMetrics()  # type: ignore[abstract]  # it does nothing


class SpanKind(enum.Enum):
    """What a span is to the spans of other processes."""

    INTERNAL = "internal"
    PRODUCER = "producer"  # its messages begin spans elsewhere
    CONSUMER = "consumer"  # a message began it


class Span(Protocol):
    """Something that takes time."""

    def note(self, **facts: str | float) -> None:
        """Add what is known by now; the name of each is `cronhare.` and its own."""

    def fail(self, reason: str) -> None:
        """Note that it went wrong."""


class TracingPort(Protocol):
    """Begins spans. No call raises, or waits for a server; any thread and task may make it."""

    def span(
        self,
        name: str,
        *,
        parent: object = None,
        kind: SpanKind = SpanKind.INTERNAL,
        **facts: str | float,
    ) -> AbstractContextManager[Span]:
        """Open a span for a `with`; spans that are opened within it are its children.

        *parent* is the `traceparent` of a message, whoever wrote it; what is none, or None, makes
        it a child of the span around it, or the first of a trace.
        """

    def current(self) -> str | None:
        """Give the W3C `traceparent` of the span around this call; None if there is none."""

    def close(self) -> None:
        """Send what has not been sent, for a few seconds at most."""


class _NoSpan(Span):
    pass


class _NoTracing(TracingPort):
    def span(self, *_: object, **__: object) -> AbstractContextManager[Span]:
        return _NOWHERE


_NOWHERE: Final = nullcontext(_NoSpan())  # type: ignore[abstract]  # it does nothing

#: Traces nothing.
NOT_TRACED: Final[TracingPort] = _NoTracing()  # type: ignore[abstract]  # it does nothing

#: Bytes of an answer's body that are kept, unless a caller asks for fewer or more.
KEPT_OF_ANSWER: Final = 64 * 1024

LONGEST_REQUEST: Final = timedelta(minutes=15)


class HttpRefused(ValueError):
    """The host, its address or the request is not allowed: asking again changes nothing."""


class HttpFailed(Exception):
    """There was no whole answer: no address, connection, or time, or what came is no HTTP.

    The server may have acted on the request.
    """


@attrs.frozen(kw_only=True)
class HttpRequest:
    """What a server is asked. *timeout* covers all of it, the look-up of its name included."""

    method: str
    address: WebAddress
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    timeout: timedelta = timedelta(seconds=30)
    most: int = KEPT_OF_ANSWER


@attrs.frozen(kw_only=True)
class HttpAnswer:
    """What a server answered: any status, redirects included.

    *headers* have lower-case names; several of one name are joined by a comma. *body* is its first
    bytes, and *is_cut* tells whether there were more.
    """

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    is_cut: bool = False

    @property
    def is_success(self) -> bool:
        """Whether the status is 200 to 299."""
        return 200 <= self.status < 300  # noqa: PLR2004 - RFC 9110


class HttpPort(Protocol):
    """Asks servers, each at most once per call: no redirect is followed, nothing is repeated."""

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """Send a request, and wait for the answer.

        Cancelled, it gives up the connection and does not wait for it.

        Raises:
            HttpRefused: it may not be sent; nobody was asked.
            HttpFailed: there is no answer.
        """
