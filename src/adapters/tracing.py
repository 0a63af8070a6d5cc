"""Traces by OpenTelemetry's SDK, sent over OTLP. Imported where CRON_TRACING is on alone."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from cronhare.application.outages import Outage
from cronhare.ports.system import Span, SpanKind

log = logging.getLogger(__name__)

#: Seconds that sending what is left may take at the end.
CLOSING: Final = 3.0

#: Bytes of a reason that are sent.
_LONGEST_REASON: Final = 1_000

_HEADER: Final = "traceparent"

_KINDS: Final = {
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
    SpanKind.PRODUCER: trace.SpanKind.PRODUCER,
    SpanKind.CONSUMER: trace.SpanKind.CONSUMER,
}


def open_tracing(node: str) -> "OpenTelemetryTracing":
    """Trace as the standard variables `OTEL_…` say: where to, which part, under which name."""
    about = Resource.create({"service.version": version("cronhare"), "service.instance.id": node})
    if str(about.attributes["service.name"]).startswith("unknown_service"):  # the SDK's own word
        about = about.merge(Resource({"service.name": "cronhare"}))
    # It is closed in time below; at the interpreter's end it could wait for ever.
    provider = TracerProvider(resource=about, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(ToldExporter(OTLPSpanExporter())))
    return OpenTelemetryTracing(provider)


class ToldExporter(SpanExporter):
    """Exports as another does, and logs an outage once a minute, where that would with each try."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._outage = Outage(log, "Traces are taken again", back="traces.back")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._outage.is_over()
        else:
            why = "nobody takes them at OTEL_EXPORTER_OTLP_ENDPOINT"
            self._outage.lasts(logging.WARNING, "traces.unsent", "Traces are lost", why)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _Span:
    """One of the SDK's spans, as the use cases see it."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, **facts: str | float) -> None:
        for name, fact in facts.items():
            self._span.set_attribute(f"cronhare.{name}", fact)

    def fail(self, reason: str) -> None:
        self._span.set_status(trace.Status(trace.StatusCode.ERROR, reason[:_LONGEST_REASON]))


class OpenTelemetryTracing:
    """Satisfies `TracingPort`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("cronhare", version("cronhare"))
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(
        self,
        name: str,
        *,
        parent: object = None,
        kind: SpanKind = SpanKind.INTERNAL,
        **facts: str | float,
    ) -> Iterator[Span]:
        context = None
        if isinstance(parent, str):  # anybody may have written the header
            context = self._propagator.extract({_HEADER: parent})
        with self._tracer.start_as_current_span(name, context=context, kind=_KINDS[kind]) as span:
            ours = _Span(span)
            ours.note(**facts)
            yield ours

    def current(self) -> str | None:
        carrier = dict[str, str]()
        self._propagator.inject(carrier)
        return carrier.get(_HEADER)

    def close(self) -> None:
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(CLOSING)
