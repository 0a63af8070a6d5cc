"""Alerts of the whole ledger are judged by whoever is left, and none is of our own blindness."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from cronhare.adapters.sql.events.alerts import SqlAlertStore
from cronhare.adapters.sql.nodes import SqlNodeStore
from cronhare.application.events.alerting import LONGEST_GAP, LedgerJudge
from cronhare.domain.events.rules import AlertPolicy
from cronhare.domain.nodes import FORGOTTEN_AFTER, NodeReport
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.events import AlertFilter
from tests.unit.application.house import House
from tests.unit.application.test_events import house

LOOK = LONGEST_GAP / 2


class Watched:
    """A ledger on which nodes report themselves, and a judge that looks."""

    def __init__(self, made: House) -> None:
        self.house = made
        self.nodes = SqlNodeStore(made.engine, made.clock)
        self.alerts = SqlAlertStore(made.engine, made.clock)
        self.judge = LedgerJudge(
            alerts=self.alerts, nodes=self.nodes, policy=AlertPolicy(), now=made.clock.now
        )
        self.broker_lost_at: datetime | None = None

    def goes_on(self, seconds: float, *alive: str) -> None:
        for _ in range(round(seconds / LOOK.total_seconds())):
            self.house.clock.advance(LOOK)
            for name in alive:
                self.report(name)
            self.judge.look(self.house.now)

    def report(self, name: str) -> None:
        now = self.house.now
        report = NodeReport(
            name=name,
            role="worker",
            host=name,
            version="1",
            started_at=now,
            seen_at=now,
            queues=(MAIN_QUEUE,),
            consumed_at=self.broker_lost_at or now,
        )
        self.nodes.report(report, kept_for=FORGOTTEN_AFTER)

    def raised(self) -> Iterator[str]:
        found, _ = self.alerts.page(AlertFilter(), after=None, limit=None)
        return (f"{each.rule} {each.subject}" for each in found)


@pytest.fixture
def watched() -> Watched:
    return Watched(house())


@pytest.mark.parametrize("first", ["ant", "bee", None])
def test_a_ledger_that_was_away_makes_no_node_silent(watched: Watched, first: str | None) -> None:
    watched.goes_on(300, "ant", "bee")

    watched.house.clock.advance(timedelta(seconds=70))
    if first is not None:
        watched.report(first)
    watched.judge.look(watched.house.now)
    watched.goes_on(300, "ant", "bee")

    assert [*watched.raised()] == []


def test_a_node_that_is_killed_is_told_within_two_minutes(watched: Watched) -> None:
    watched.goes_on(300, "ant", "bee")

    watched.goes_on(40, "bee")
    early = [*watched.raised()]
    watched.goes_on(80, "bee")

    assert early == []
    assert [*watched.raised()] == ["node ant"]
