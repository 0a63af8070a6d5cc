"""What the metrics measure, and what they say of the nodes."""

from datetime import timedelta

import attrs

from cronhare.adapters.prometheus.catalogue import CATALOGUE, Source
from cronhare.application.administration.reading.limits import LimitViews
from cronhare.application.administration.reading.measures import Metrics, at_work
from cronhare.domain.nodes import DISCONNECTED_AFTER, PRESUMED_DEAD_AFTER, NodeReport
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import memory_ledger
from tests.unit.executions import NOON


def report(name: str, ago: timedelta) -> NodeReport:
    return NodeReport(
        name=name,
        role="worker",
        host=name,
        version="1",
        started_at=NOON,
        seen_at=NOON - ago,
        queues=("mails",),
    )


def test_a_node_that_stood_still_for_a_while_is_no_silent_one() -> None:
    slow = report("ant", PRESUMED_DEAD_AFTER)
    dead = report("bee", PRESUMED_DEAD_AFTER + timedelta(seconds=1))

    nodes, workers = at_work([slow, dead], NOON, waited_for=())

    assert nodes == {("worker", "alive"): 1, ("worker", "silent"): 1}
    assert workers == {("mails",): 1}


def test_a_worker_that_is_cut_off_from_its_broker_serves_no_queue() -> None:
    there = report("ant", timedelta(0))
    long_ago = NOON - DISCONNECTED_AFTER - timedelta(seconds=1)
    cut_off = attrs.evolve(report("bee", timedelta(0)), consumed_at=long_ago)

    nodes, workers = at_work([there, cut_off], NOON, waited_for=())

    assert nodes == {("worker", "alive"): 2}
    assert workers == {("mails",): 1}


def test_all_that_is_described_as_the_ledgers_is_measured() -> None:
    ledger = memory_ledger(FrozenClock(NOON))
    metrics = Metrics(
        statistics=ledger.statistics,
        records=ledger.records,
        nodes=ledger.nodes,
        limits=LimitViews(limits=ledger.limits, now=ledger.clock.now),
        now=ledger.clock.now,
        schedules=9,
    )

    described = {one.name for one in CATALOGUE if one.source is Source.LEDGER}
    assert metrics.measure().keys() == described
