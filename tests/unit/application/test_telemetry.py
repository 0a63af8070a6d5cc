"""Counters, each where it is decided, and traces that go from the tick to the child."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from cronhare.adapters.tracing import OpenTelemetryTracing
from cronhare.domain.execution import State
from cronhare.domain.messages import TRACE_HEADER, Signer, task_body
from cronhare.domain.topology import MAIN_QUEUE
from tests.unit.application.deliveries import (
    Seen,
    begin,
    deliver,
    due,
    failure,
    foreign_body,
    live,
    one_by_one,
    run,
)
from tests.unit.application.house import LEASE, House


class Noted:
    """Counts the calls of each method."""

    def __init__(self) -> None:
        self.count = Counter[str]()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: self.count.update([name])


async def test_each_step_of_a_run_is_counted_where_it_is_decided() -> None:
    noted = Noted()
    house = House(script=one_by_one([failure()]), metrics=noted)

    await run(house)
    await live(house, LEASE * 2)
    house.publish(b"no JSON")
    house.publish_again()
    await house.work()

    assert noted.count.pop("ticked") > 10
    assert noted.count == {
        "claimed": 1,
        "published": 2,
        "started": 2,
        "attempt_ended": 2,
        "recorded": 2,
        "quarantined": 1,
        "fenced": 1,
    }


async def test_an_attempt_whose_worker_vanished_is_lost_and_its_end_does_not_count() -> None:
    noted = Noted()
    house = House(metrics=noted, holds=True)
    await begin(house)
    house.reconciler.tick(house.now)
    for passed in (LEASE * 2, LEASE):
        house.clock.advance(passed)
        house.reconciler.tick(house.now)
    house.keeper.renew()
    await house.settle()

    assert [noted.count[name] for name in ("lost", "lease_lost", "superseded")] == [1, 1, 1]


# Traces, by the SDK

THEIRS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Traced:
    """Tracing whose spans stay in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = OpenTelemetryTracing(provider)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def chain_to(self, span: ReadableSpan) -> list[str]:
        by_id = {each.context.span_id: each for each in self.spans}
        names = [span.name]
        while span.parent is not None and span.parent.span_id in by_id:
            span = by_id[span.parent.span_id]
            names.append(span.name)
        return names[::-1]


@pytest.fixture
def traced() -> Traced:
    return Traced()


def place_of(span: ReadableSpan) -> str:
    trace, id_ = span.context.trace_id, span.context.span_id
    return f"{format_trace_id(trace)}-{format_span_id(id_)}"


async def test_a_trace_goes_from_the_tick_to_the_child(traced: Traced) -> None:
    seen = Seen()
    house = House(script=seen, tracing=traced.tracing)

    await run(house)

    [child] = traced.named("child")
    assert traced.chain_to(child) == ["tick", "publish", "delivery", "attempt", "child"]
    [claim] = [span for span in traced.named("claim") if span.attributes["cronhare.claimed"]]  # type: ignore[index]
    assert traced.chain_to(claim) == ["tick", "claim"]
    [publish], [delivery] = traced.named("publish"), traced.named("delivery")
    assert (publish.kind, delivery.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    [invocation] = seen.invocations
    assert invocation.trace is not None
    assert invocation.trace[3:].startswith(place_of(child))
    [attempt] = traced.named("attempt")
    assert attempt.attributes is not None
    assert attempt.attributes["cronhare.execution"] == house.only.id
    assert attempt.attributes["cronhare.ending"] == "succeeded"


async def test_a_retry_goes_on_in_the_trace_of_the_attempt_that_failed(traced: Traced) -> None:
    house = House(script=one_by_one([failure("no route")]), tracing=traced.tracing)

    await run(house)
    await live(house, LEASE * 2)

    assert house.only.state is State.SUCCEEDED
    first, second = traced.named("attempt")
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description == "no route"
    assert second.context.trace_id == first.context.trace_id
    assert traced.chain_to(second) == ["tick", "publish", "delivery", "delivery", "attempt"]


async def test_the_body_stays_byte_for_byte_and_the_seal_holds(traced: Traced) -> None:
    house = House(tracing=traced.tracing, signer=Signer(["a long enough key"]))
    due(house)

    [message] = house.messages(MAIN_QUEUE)
    assert message.body == task_body(house.only)
    assert TRACE_HEADER in message.headers
    house.publish(message.body, {**message.headers, TRACE_HEADER: THEIRS})
    await house.open()
    await house.work()

    assert house.only.state is State.SUCCEEDED
    [attempt] = traced.named("attempt")
    assert format_trace_id(attempt.context.trace_id) == THEIRS[3:35]


@pytest.mark.parametrize(
    "header",
    [
        "00-00000000000000000000000000000000-0000000000000000-00",
        "x" * 100_000,
        {"a": [1]},
    ],
)
async def test_a_header_that_is_no_trace_begins_a_new_one(traced: Traced, header: object) -> None:
    house = House(tracing=traced.tracing)
    house.add(schedule=None)

    await deliver(house, foreign_body(house), {TRACE_HEADER: header})

    assert house.only.state is State.SUCCEEDED
    assert traced.named("attempt")
