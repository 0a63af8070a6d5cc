from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from cronhare.adapters.rabbitmq.topology import guide
from cronhare.application.doctor.doctor import Doctor
from cronhare.application.doctor.finding import Finding, Seen
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.topology import Topology
from cronhare.ports.inspection import (
    Activity,
    BrokerFacts,
    BrokerInspectionPort,
    Cause,
    DatabaseFacts,
    InMemory,
    LaneReport,
    LaneState,
    LedgerFacts,
    LedgerInspectionPort,
    ScheduleFacts,
    Severity,
    Unreachable,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
AWAY = Unreachable(Cause.ABSENT, "nobody answers")
HOURLY = ScheduleFacts(name="hourly", task=TaskRef("report", 1), queue="cron_scheduler.reports")
LEDGER = LedgerFacts(
    database=DatabaseFacts(product="SQLite", version="3.40.1"), schema="0001", schedules=[HOURLY]
)
RABBIT = BrokerFacts(product="RabbitMQ", version="4.1.0", guide=guide("jobs"))


@attrs.define
class Broker:
    """Shows the facts that it was given, and remembers what it was asked for."""

    facts: BrokerFacts | InMemory | Unreachable
    asked: list[Topology] = attrs.field(factory=list[Topology])
    lanes: Sequence[LaneReport] | InMemory | Unreachable = ()

    def inspect(self, topology: Topology) -> BrokerFacts | InMemory | Unreachable:
        self.asked.append(topology)
        return self.facts

    def probe(self) -> Sequence[LaneReport] | InMemory | Unreachable:
        return self.lanes


@attrs.frozen
class Ledger:
    """Shows the facts that it was given."""

    facts: LedgerFacts | Unreachable

    def inspect(self) -> LedgerFacts | Unreachable:
        return self.facts


def examine(
    ledger: LedgerInspectionPort,
    broker: BrokerInspectionPort,
    *,
    tasks: Sequence[Task] | None = None,
    probe: bool = False,
) -> list[Finding]:
    doctor = Doctor(ledger=ledger, broker=broker)
    known = Seen(queues=["mails"], tasks=tasks)
    findings = doctor.examine(known, retry_delay=timedelta(seconds=30), probe=probe)
    return list(findings)


def subjects(findings: Sequence[Finding], severity: Severity) -> list[str]:
    return [finding.subject for finding in findings if finding.severity is severity]


def test_both_servers_may_be_away_and_both_are_told() -> None:
    findings = examine(Ledger(AWAY), Broker(AWAY))

    assert subjects(findings, Severity.ERROR) == ["database", "broker"]


def test_the_queues_that_are_looked_at_are_the_processs_and_the_schedules() -> None:
    broker = Broker(RABBIT)

    examine(Ledger(LEDGER), broker)

    [topology] = broker.asked
    names = [queue.name for queue in topology.queues]
    assert names[:3] == ["cron_scheduler", "mails", "cron_scheduler.reports"]


@pytest.mark.parametrize(
    ("enabled", "in_use", "is_looked_at"),
    [(True, (), True), (False, (), False), (False, ("cron_scheduler.reports",), True)],
)
def test_a_queue_that_is_only_named_by_what_is_off_is_not_looked_for_once_its_runs_have_ended(
    *, enabled: bool, in_use: Sequence[str], is_looked_at: bool
) -> None:
    broker = Broker(RABBIT)
    facts = attrs.evolve(
        LEDGER,
        schedules=[attrs.evolve(HOURLY, enabled=enabled)],
        activity=Activity(now=NOON, queues=in_use),
    )

    examine(Ledger(facts), broker)

    [topology] = broker.asked
    names = [queue.name for queue in topology.queues]
    assert ("cron_scheduler.reports" in names) is is_looked_at


def test_the_lanes_are_probed_only_if_somebody_asks() -> None:
    broken = Broker(RABBIT, lanes=[LaneReport(3, LaneState.BROKEN)])

    unasked, asked = examine(Ledger(LEDGER), broken), examine(Ledger(LEDGER), broken, probe=True)

    assert subjects(unasked, Severity.ERROR) == []
    assert subjects(asked, Severity.ERROR) == ["lanes"]
