"""Traces: spans from the tick that found a due instant to the child that ran its task."""

import enum
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol


class SpanKind(enum.Enum):
    """What a span is to the spans of other processes."""

    INTERNAL = "internal"
    PRODUCER = "producer"  # its messages begin spans elsewhere
    CONSUMER = "consumer"  # a message began it


class Span(Protocol):
    """Something that takes time."""

    def note(self, **facts: str | float) -> None:
        """Add what is known by now; the name of each is `cronhare.` and its own."""
        ...

    def fail(self, reason: str) -> None:
        """Note that it went wrong."""
        ...


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
        ...

    def current(self) -> str | None:
        """Give the W3C `traceparent` of the span around this call; None if there is none."""
        ...

    def close(self) -> None:
        """Send what has not been sent, for a few seconds at most."""
        ...


class _NoSpan:
    def note(self, **facts: str | float) -> None:
        """Do nothing."""

    def fail(self, reason: str) -> None:
        """Do nothing."""


_NOWHERE: Final = nullcontext[Span](_NoSpan())


class NoTracing:
    """Traces nothing. Satisfies `TracingPort`."""

    def span(
        self,
        name: str,  # noqa: ARG002 - as the port has it
        *,
        parent: object = None,  # noqa: ARG002
        kind: SpanKind = SpanKind.INTERNAL,  # noqa: ARG002
        **facts: str | float,  # noqa: ARG002
    ) -> AbstractContextManager[Span]:
        """Open nothing."""
        return _NOWHERE

    def current(self) -> str | None:
        """Give None."""
        return None

    def close(self) -> None:
        """Do nothing."""


NOT_TRACED: Final[TracingPort] = NoTracing()
