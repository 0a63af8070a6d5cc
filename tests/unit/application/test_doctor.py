from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from cronhare.adapters.rabbitmq.topology import guide
from cronhare.application.doctor.doctor import Doctor
from cronhare.application.doctor.finding import Finding, Seen, grouped
from cronhare.domain.events.targets import ByCommand, Subscriptions, Target
from cronhare.domain.retries.limits import Breaker, Budget
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
    Late,
    LedgerFacts,
    LedgerInspectionPort,
    Owner,
    ScheduleFacts,
    Severity,
    Unreachable,
    UntoldTarget,
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


@pytest.mark.parametrize(
    ("broker", "start"),
    [(RABBIT, "cronhare scheduler"), (InMemory(), "cronhare up --jobs JOBS.TOML")],
)
def test_beside_a_broker_in_memory_nobody_is_sent_to_a_scheduler_which_refuses_it(
    broker: BrokerFacts | InMemory, start: str
) -> None:
    gone = Owner(name="ant-7", running=1, lease_until=NOON - timedelta(minutes=10))
    late = [Late("hourly", NOON - timedelta(minutes=10))]
    activity = Activity(now=NOON, next_due=late[0].since, overdue=late, owners=[gone])

    findings = examine(Ledger(attrs.evolve(LEDGER, activity=activity)), Broker(broker))

    cures = [each.cure or "" for each in findings if each.severity is Severity.ERROR]
    assert len(cures) == 2
    assert all(f"start `{start}`" in cure for cure in cures)
    assert ("cronhare scheduler" in "".join(cures)) is (broker is RABBIT)


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


def test_failures_open_breakers_and_spent_budgets_are_told_with_their_remedies() -> None:
    minute = timedelta(minutes=1)
    opened = Breaker(
        task="worker 7",
        name="daily",
        window=minute,
        last_at=NOON,
        opened_at=NOON,
        probe_at=NOON + minute,
    )
    closed = Breaker(task="worker 8", window=minute, last_at=NOON)
    spent = Budget(queue="mails", most=2, window=minute, grants=((NOON, 2),), granted_at=NOON)
    free = Budget(queue="reports", most=2, window=minute)
    activity = Activity(now=NOON, failures=9, breakers=[opened, closed], budgets=[spent, free])

    findings = examine(Ledger(attrs.evolve(LEDGER, activity=activity)), Broker(RABBIT))

    told = {each.what: each.cure for each in findings if each.severity is Severity.WARNING}
    failed = told["9 runs failed for good and are unresolved"]
    breaker = told["The circuit breaker of daily is open: what fails is not tried again"]
    budget = told["The retry budget of mails is spent until 2026-03-02 12:01:00Z"]
    assert "`cronhare failed replay ID`" in failed
    assert "`cronhare breakers reset daily`" in breaker
    assert "`cronhare failed list --all --task daily` has the errors" in breaker
    assert "`cronhare budgets list`" in budget


def test_targets_that_were_given_up_are_told_with_a_remedy_and_not_those_that_are_gone() -> None:
    given_up = UntoldTarget(
        name="ops", source="jobs.toml", events=3, last_at=NOON, error="410 Gone" + " " * 300
    )
    gone = attrs.evolve(given_up, name="old")
    anothers = attrs.evolve(given_up, name="pager", source="other.toml", events=1, error=None)
    undated = attrs.evolve(anothers, name="undated", events=2, last_at=None, error="410 Gone")
    activity = Activity(now=NOON, untold=[given_up, gone, anothers, undated])
    ops = Target(name="ops", means=ByCommand(command=("true",)))

    findings = Doctor(
        ledger=Ledger(attrs.evolve(LEDGER, activity=activity)), broker=Broker(RABBIT)
    ).examine(
        Seen(tasks=(), subscriptions=[Subscriptions(source="jobs.toml", targets={"ops": ops})]),
        retry_delay=timedelta(seconds=30),
    )

    told = {each.what: each.cure for each in findings if each.subject == "notify"}
    [first, second, third] = told
    assert first.startswith("notify.ops of jobs.toml was not told of 3 events, of the last one at ")
    assert first.rstrip().endswith(": 410 Gone")
    assert len(first) < 300
    assert second.startswith("notify.pager of other.toml was not told of 1 event, ")
    assert third == "notify.undated of other.toml was not told of 2 events: 410 Gone"
    assert "`cronhare alerts test ops`" in told[first]


def test_rows_that_cannot_be_read_are_counted_and_some_are_named() -> None:
    rows = [f"Alert strange:{number:03}: data: not JSON" for number in range(500)]
    activity = Activity(now=NOON, broken_rows=["x" * 10**6, *rows])

    [finding] = [
        each
        for each in examine(Ledger(attrs.evolve(LEDGER, activity=activity)), Broker(RABBIT))
        if "strange" in each.what
    ]

    assert finding.severity is Severity.WARNING
    assert finding.what.startswith("501 rows cannot be read, and count for nothing: xxx")
    assert "strange:000" in finding.what
    assert len(finding.what) < 500


def test_the_lanes_are_probed_only_if_somebody_asks() -> None:
    broken = Broker(RABBIT, lanes=[LaneReport(3, LaneState.BROKEN)])

    unasked, asked = examine(Ledger(LEDGER), broken), examine(Ledger(LEDGER), broken, probe=True)

    assert subjects(unasked, Severity.ERROR) == []
    assert subjects(asked, Severity.ERROR) == ["lanes"]


def warning(what: str, cure: str = "mend it") -> Finding:
    return Finding(Severity.WARNING, "tasks", what, cure)


def test_few_of_them_and_those_with_another_cure_are_told_one_by_one_in_their_order() -> None:
    findings = [
        warning("a"),
        warning("b", "wait"),
        warning("c"),
        Finding(Severity.OK, "tasks", "d"),
    ]

    assert grouped(findings) == findings
