"""Draining nodes."""

from datetime import timedelta

import attrs
import pytest

from cronhare.adapters.sql.access import SqlAuditStore
from cronhare.adapters.sql.nodes import SqlNodeStore
from cronhare.application.administration.audit import AuditTrail
from cronhare.application.administration.changing.work import NodeDesk, NotDrainable
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.nodes import DISCONNECTED_AFTER, NodeReport, NodeState
from tests.actors import ADA
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import NOON
from tests.memory_ledger import memory_engine

LONG = DISCONNECTED_AFTER + timedelta(seconds=1)
ANT = NodeReport(
    name="ant-1-0a1b2c3d4e5f6071",
    role="worker",
    host="ant",
    version="0.1.0",
    started_at=NOON,
    seen_at=NOON,
    concurrency=8,
    running=1,
    consuming=True,
)
OTHER = attrs.evolve(ANT, name="ant-2-0a1b2c3d4e5f6071")
BEE = attrs.evolve(
    ANT, name="bee-1-0a1b2c3d4e5f6071", role="scheduler", running=None, consuming=None
)


class Room:
    """A desk with three nodes."""

    def __init__(self) -> None:
        clock = FrozenClock(NOON)
        engine = memory_engine(clock)
        self.nodes, self.audit = SqlNodeStore(engine, clock), SqlAuditStore(engine, clock)
        for each in (ANT, OTHER, BEE):
            self.nodes.report(each, kept_for=timedelta(hours=1))
        self.desk = NodeDesk(
            nodes=self.nodes,
            trail=AuditTrail(entries=self.audit, stopwatch=clock.monotonic, now=clock.now),
        )


def test_the_beginning_of_a_name_is_enough_if_no_other_has_it() -> None:
    desk = Room().desk

    assert desk.drain("ant-1", actor=ADA).name == ANT.name
    with pytest.raises(NotFound, match=r"ant- begins several nodes: ant-1-.*, ant-2-"):
        desk.drain("ant-", actor=ADA)


def test_a_scheduler_cannot_be_drained() -> None:
    with pytest.raises(NotDrainable, match="is a scheduler: it runs no tasks to drain"):
        Room().desk.drain(BEE.name, actor=ADA)


@pytest.mark.parametrize(
    ("report", "state", "works"),
    [
        (ANT, NodeState.AT_WORK, True),
        (attrs.evolve(ANT, drain_asked_at=NOON), NodeState.DRAINING, True),
        (attrs.evolve(ANT, consuming=False), NodeState.DRAINING, False),
        (attrs.evolve(ANT, consuming=False, running=0), NodeState.DRAINED, False),
        (attrs.evolve(ANT, consumed_at=NOON - LONG), NodeState.DISCONNECTED, True),
        (attrs.evolve(ANT, consumed_at=NOON - LONG, consuming=False), NodeState.DRAINING, False),
        (attrs.evolve(ANT, seen_at=NOON - timedelta(hours=1)), NodeState.SILENT, True),
        (attrs.evolve(BEE, drain_asked_at=NOON), NodeState.AT_WORK, False),
    ],
)
def test_a_node_that_takes_no_more_is_drained_once_it_runs_nothing(
    report: NodeReport, state: NodeState, works: bool
) -> None:
    assert (report.state(NOON), report.works) == (state, works)
