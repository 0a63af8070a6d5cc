"""`cronhare doctor`, on every server that there is."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pika
import pytest
from sqlalchemy import URL, Engine

from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.adapters.rabbitmq.client import Address
from cronhare.adapters.rabbitmq.inspection import RabbitInspection
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.gauges import loads, outstanding
from cronhare.adapters.sql.records.inspection import SqlInspection
from cronhare.adapters.system.clock import SystemClock
from cronhare.application.doctor.finding import Seen
from cronhare.application.doctor.servers import BROKER_SERVER
from cronhare.domain.events.outbox import OutboxRow, OutboxState
from cronhare.domain.retries.limits import BreakerPolicy, BreakerState, BudgetPolicy, RetryLimits
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.schedules.keys import standalone_queue
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.topology import LANES, MAIN_QUEUE, topology
from cronhare.ports.attempts import Finish
from cronhare.ports.inspection import (
    Activity,
    BrokerFacts,
    BrokerInspectionPort,
    Cause,
    Difference,
    Fit,
    LaneReport,
    LaneState,
    LastClaim,
    Late,
    LedgerFacts,
    LedgerInspectionPort,
    Quarantined,
    Severity,
    Unreachable,
    UntoldTarget,
    Waiting,
)
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import (
    CRASH,
    FAILURE,
    IN_30_S,
    MINUTE,
    SECOND,
    Ledger,
    all_running,
    draft,
    server_ledger,
)
from tests.integration.shell import Said, Shell
from tests.services import rabbitmq as rabbitmq_service
from tests.services.finding import free_port
from tests.trial_event import trial

pytestmark = pytest.mark.integration

RETRY_DELAY = timedelta(seconds=30)
OURS = topology(retry_delay=RETRY_DELAY)

JOBS = """
[tasks.report]
id = 1
command = ["true"]

[schedules.nightly]
task = "report"
schedule = "30 2 * * *"
"""


def told(said: Said, severity: str) -> list[tuple[str, str]]:
    """Read subjects and sentences out of the JSON."""
    findings = said.json()["findings"]
    return [(each["subject"], each["what"]) for each in findings if each["severity"] == severity]


@pytest.fixture
def applied(tmp_path: Path) -> Path:
    """A folder with a jobs file and a ledger that has it."""
    (tmp_path / "jobs.toml").write_text(JOBS)
    assert Shell(tmp_path)("db", "upgrade").status == 0
    assert Shell(tmp_path)("apply", "jobs.toml").status == 0
    return tmp_path


def test_the_embedded_system_has_nothing_to_mend(applied: Path) -> None:
    said = Shell(applied)("doctor", "--jobs", "jobs.toml")

    assert said.status == 0
    assert "✓  schema     Revision" in said.out
    assert "In memory, inside of `cronhare up`" in said.out
    assert said.out.endswith("Nothing is wrong.\n")
    assert said.err == ""


def test_a_missing_ledger_is_told_with_its_cure_and_not_made(tmp_path: Path) -> None:
    said = Shell(tmp_path)("doctor")

    assert said.status == 3
    assert "✗  schema    There is no file cronhare.sqlite3 yet" in said.out
    assert "→ run `cronhare db upgrade`" in said.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CRON_DATABASE_URL", "mysql+pymysql://user:secret@127.0.0.1/"),
        ("CRON_BROKER_URL", "amqp://user:secret@127.0.0.1/?color=red"),
        ("CRON_QUEUES", "cron_scheduler_failed"),
        ("CRON_JOBS", "nowhere.toml"),
    ],
)
def test_what_can_be_read_and_not_be_used_is_a_fault_of_the_settings(
    tmp_path: Path, name: str, value: str
) -> None:
    said = Shell(tmp_path)("doctor", "--json", **{name: value})

    assert (said.status, said.json()["healthy"]) == (2, False)
    (_, what), *others = told(said, "error")
    assert what.startswith(value if name == "CRON_JOBS" else name)
    # With a jobs file at fault all the rest is looked at, and nobody has made a ledger.
    assert [subject for subject, _ in others] == (["schema"] if name == "CRON_JOBS" else [])
    assert "secret" not in said.out + said.err


def test_a_broker_that_is_away_is_told_without_a_line_of_log(applied: Path) -> None:
    port = free_port()

    said = Shell(applied)(
        "doctor", "--json", CRON_BROKER_URL=f"amqp://user:secret@127.0.0.1:{port}/"
    )

    assert said.status == 3
    [(subject, what)] = told(said, "error")
    assert (subject, f"127.0.0.1:{port}" in what) == ("broker", True)
    assert "secret" not in said.out
    assert said.err == ""


@pytest.fixture
def sqlite_engine(sqlite: Ledger, tmp_path: Path) -> Iterator[Engine]:  # noqa: ARG001 - makes it
    """A second look at the ledger of the `sqlite` fixture."""
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    yield engine
    engine.dispose()


@pytest.fixture
def mysql_engine(migrated_mysql: URL) -> Iterator[Engine]:
    """A second look at the ledger of the `mysql` fixture."""
    engine = open_engine(migrated_mysql.render_as_string(hide_password=False))
    yield engine
    engine.dispose()


def look(engine: Engine, clock: FrozenClock | SystemClock) -> LedgerFacts:
    inspection: LedgerInspectionPort = SqlInspection(lambda: engine, clock)
    facts = inspection.inspect()
    assert isinstance(facts, LedgerFacts), facts
    return facts


def active(engine: Engine, clock: FrozenClock) -> Activity:
    activity = look(engine, clock).activity
    assert activity is not None
    return activity


def test_what_nobody_plans_or_claims_is_seen_by_its_name(
    sqlite: Ledger, sqlite_engine: Engine, clock: FrozenClock
) -> None:
    sqlite.save(draft("new", schedule="30 12 * * *"))
    assert active(sqlite_engine, clock).unplanned == [Late("new", clock.now())]
    sqlite.plan_edited()
    sqlite.claimed("early")
    claimed_at = clock.now()
    sqlite.add("report")
    sqlite.add("later", schedule="30 12 * * *")
    clock.advance(2 * MINUTE)

    activity = active(sqlite_engine, clock)

    assert activity.unplanned == []
    assert activity.overdue == [Late("report", claimed_at + MINUTE)]
    assert activity.last_claim == LastClaim(claimed_at, "ant")


def test_quarantined_runs_are_counted_until_they_are_resolved(
    sqlite: Ledger, sqlite_engine: Engine, clock: FrozenClock
) -> None:
    sqlite.failed("failed")
    sqlite.finished(sqlite.claimed("crashing"), Quarantine("crashed 3 times within 300 s"), CRASH)

    before = active(sqlite_engine, clock)
    [apart, _] = sqlite.records.archive()
    sqlite.records.discard([apart.id], note="", now=clock.now())
    after = active(sqlite_engine, clock)

    assert before.quarantined == Quarantined(unresolved=1, of_late=1)
    assert after.quarantined == Quarantined(unresolved=0, of_late=1)


def test_unresolved_failures_breakers_and_budgets_are_looked_at(
    sqlite: Ledger, sqlite_engine: Engine, clock: FrozenClock
) -> None:
    limits = RetryLimits(
        budget=BudgetPolicy(most=1, window=MINUTE), breaker=BreakerPolicy(least=2, window=MINUTE)
    )
    finishes = [
        Finish(execution=each, ran=FAILURE, verdict=IN_30_S, limits=limits)
        for each in all_running(sqlite, 3)
    ]
    sqlite.attempts.finish(finishes, now=sqlite.now, node="ant")

    activity = active(sqlite_engine, clock)

    assert activity.failures == 2
    assert [each.state(clock.now()) for each in activity.breakers] == [BreakerState.OPEN]
    assert [each.remaining(clock.now()) for each in activity.budgets] == [0]


def test_targets_that_were_given_up_and_have_heard_of_nothing_since_are_named(
    both: tuple[Ledger, Engine], clock: FrozenClock
) -> None:
    ledger, engine = both

    def told(id_: str, *targets: str) -> None:
        event = trial("ops", now=ledger.now, id_=id_)
        rows = [OutboxRow.of(event, name, source="shop", now=ledger.now) for name in targets]
        ledger.events.add(rows, now=ledger.now)

    def settle(target: str, state: OutboxState) -> None:
        [row] = ledger.events.take(
            target, source="shop", now=ledger.now, lease=MINUTE, node="ant", limit=1
        )
        error = None if state is OutboxState.DELIVERED else "410 Gone"
        again = ledger.now + SECOND
        ledger.events.settle(row, state, now=ledger.now, error=error, next_try_at=again)

    told("first", "hook", "mail", "slow", "many", "once")
    settle("hook", OutboxState.GIVEN_UP)
    settle("mail", OutboxState.GIVEN_UP)
    for _ in range(3):
        settle("slow", OutboxState.WAITING)
        ledger.clock.advance(SECOND)
    settle("once", OutboxState.WAITING)
    told("second", "mail", "many")
    told("third", "many")
    for _ in range(3):  # three events, each tried once
        settle("many", OutboxState.WAITING)
    settle("mail", OutboxState.DELIVERED)

    activity = active(engine, clock)

    gone = UntoldTarget(
        name="hook", source="shop", events=1, last_at=ledger.now - 3 * SECOND, error="410 Gone"
    )
    many = attrs.evolve(gone, name="many", events=3, last_at=ledger.now)
    assert activity.untold == (gone, many, attrs.evolve(gone, name="slow"))


def waiting(engine: Engine, clock: FrozenClock) -> list[Waiting]:
    """Ask by our clock: a server's own is its own."""
    with engine.connect() as connection:
        return list(outstanding(connection, clock.now(), loads(connection)))


@pytest.fixture(params=["sqlite", "mysql"])
def both(request: pytest.FixtureRequest) -> tuple[Ledger, Engine]:
    """Each ledger with a second look at it."""
    kind = request.param
    return request.getfixturevalue(kind), request.getfixturevalue(f"{kind}_engine")


def test_schedules_that_are_alike_are_counted_and_the_first_of_them_named(
    both: tuple[Ledger, Engine], clock: FrozenClock
) -> None:
    ledger, engine = both
    names = [f"each-{number}" for number in range(7)]
    ledger.save(
        *(draft(name, schedule=f"{minute} * * * *") for minute, name in enumerate(names)),
        draft("off", status=False),
        draft("elsewhere", queue="mails"),
        draft("alone", stay_alive=True, schedule=None),
    )
    ledger.plan_edited()

    facts = look(engine, clock)

    found = {each.name: each for each in facts.schedules or ()}
    assert found.keys() == {"each-0", "off", "elsewhere", "alone"}
    assert found["each-0"].names == tuple(names[:5])
    assert {name: each.count for name, each in found.items() if each.count > 1} == {"each-0": 7}
    assert (found["each-0"].task, found["each-0"].queue) == (TaskRef("report", 25), MAIN_QUEUE)
    assert [name for name, each in found.items() if not each.enabled] == ["off"]
    assert found["elsewhere"].queue == "mails"
    assert found["alone"].queue == standalone_queue("alone")
    assert [each.problem for each in found.values() if each.problem] == []


@pytest.mark.parametrize("sent", [False, True], ids=["claimed", "published"])
def test_what_waits_for_a_minute_waits_for_somebody(
    both: tuple[Ledger, Engine], clock: FrozenClock, *, sent: bool
) -> None:
    ledger, engine = both
    if sent:
        ledger.published()
    else:
        ledger.claimed()
    since = clock.now()

    clock.advance(MINUTE)
    before = waiting(engine, clock)
    clock.advance(SECOND)
    after = waiting(engine, clock)

    assert before == []
    assert after == [Waiting(queue="cron_scheduler", runs=1, since=since, sent=sent)]


@pytest.mark.parametrize("database", ["mysql", "postgresql"])
@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"password": "c4nary"}, Cause.LOGIN),
        ({"username": "c4nary"}, Cause.LOGIN),
        ({"database": "nowhere"}, Cause.PLACE),
        ({"port": 1}, Cause.ABSENT),
    ],
)
def test_why_a_database_cannot_be_used_is_told_apart(
    request: pytest.FixtureRequest, database: str, changes: dict[str, Any], cause: Cause
) -> None:
    url: URL = request.getfixturevalue(f"migrated_{database}").set(**changes)
    engine = open_engine(url.render_as_string(hide_password=False))

    facts = SqlInspection(lambda: engine, SystemClock()).inspect()

    assert isinstance(facts, Unreachable)
    assert facts.cause is cause
    assert "c4nary" not in facts.said


def declare(url: str, *, queue_type: str = "quorum") -> None:
    with closing(PikaBroker(url, retry_delay=RETRY_DELAY, queue_type=queue_type)) as broker:
        broker.declare([])


def inspect(url: str, *, queue_type: str = "quorum") -> BrokerFacts:
    inspection: BrokerInspectionPort = RabbitInspection(url, queue_type=queue_type)
    facts = inspection.inspect(OURS)
    assert isinstance(facts, BrokerFacts), facts
    return facts


def test_a_fresh_broker_has_nothing_of_ours_and_gets_nothing(vhost: str) -> None:
    first, second = inspect(vhost), inspect(vhost)

    assert first.product == "RabbitMQ"
    assert {thing.fit for thing in (*first.things, *second.things)} == {Fit.MISSING}
    assert (first.alarm, first.answered) == (None, True)


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
def test_what_we_declared_fits_and_its_messages_and_consumers_are_counted(
    vhost: str, queue_type: str
) -> None:
    declare(vhost, queue_type=queue_type)
    connection = pika.BlockingConnection(pika.URLParameters(vhost))
    channel = connection.channel()
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "cron_scheduler_failed", b"{}")
    channel.basic_consume("cron_scheduler", lambda *_: None)

    facts = {thing.name: thing for thing in inspect(vhost, queue_type=queue_type).things}
    connection.close()

    assert len(facts) == len(OURS.exchanges) + len(OURS.queues)
    assert {thing.fit for thing in facts.values()} == {Fit.FITS}
    assert facts["cron_scheduler_failed"].messages == 3
    assert facts["cron_scheduler"].consumers == 1


def test_each_difference_is_told_by_its_argument(vhost: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(vhost))
    channel = connection.channel()
    channel.exchange_declare("cron_delivery", "direct", durable=True)
    channel.queue_declare("cron_scheduler_failed", durable=True)
    channel.queue_declare(
        "cron_scheduler",
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": 3,
            "x-dead-letter-exchange": "cron_dlx",
            "x-dead-letter-routing-key": "retry",
        },
    )

    facts = inspect(vhost)
    connection.close()

    found = {thing.name: thing.difference for thing in facts.things if thing.difference}
    assert found["cron_delivery"] == Difference(argument="type", wanted="topic", found="direct")
    kind = found["cron_scheduler_failed"]
    assert (kind.argument, kind.wanted) == ("x-queue-type", "quorum")
    limit = found["cron_scheduler"]
    assert (limit.argument, limit.found) == ("x-delivery-limit", "3")
    assert len(found) == 3


def test_an_alarm_is_heard_and_the_examination_ends_all_the_same(
    own_rabbitmq: rabbitmq_service.Server, vhost: str
) -> None:
    declare(vhost)

    with rabbitmq_service.alarm(own_rabbitmq):
        facts = inspect(vhost)
        assert isinstance(RabbitInspection(vhost).probe(timeout=1.0), Unreachable)

    assert facts.alarm is not None
    assert "memory" in facts.alarm


def test_who_may_not_configure_sees_what_is_there_and_not_its_arguments(
    own_rabbitmq: rabbitmq_service.Server, vhost: str
) -> None:
    where = Address.parse(vhost)
    declare(vhost)
    rabbitmq_service.let(own_rabbitmq, "reader", "reader", where.vhost, "", "", ".*")

    facts = inspect(f"amqp://reader:reader@{where.url.hosts[0]}/{where.vhost}")
    rabbitmq_service.forget(own_rabbitmq, "reader")

    assert {thing.fit for thing in facts.things} == {Fit.HIDDEN}
    assert (facts.alarm, facts.answered) == (None, True)


def test_why_a_broker_cannot_be_used_is_told_apart(vhost: str) -> None:
    where = Address.parse(vhost)
    [host] = where.url.hosts
    urls = {
        Cause.LOGIN: f"amqp://guest:wrong@{host}/{where.vhost}",
        Cause.PLACE: f"amqp://guest:guest@{host}/nowhere",
        Cause.ABSENT: f"amqp://guest:guest@127.0.0.1:{free_port()}/",
        Cause.OTHER: f"amqps://guest:guest@{host}/{where.vhost}",
    }

    causes = {}
    for cause, url in urls.items():
        facts = RabbitInspection(url).inspect(OURS)
        assert isinstance(facts, Unreachable)
        causes[cause] = facts.cause

    assert causes == {cause: cause for cause in urls}


def test_of_several_nodes_the_absent_ones_are_told(vhost: str) -> None:
    dead = f"127.0.0.1:{free_port()}"

    facts = inspect(vhost.replace("@", f"@{dead},"))

    [absent] = facts.absent
    assert absent.startswith(f"{dead}: ")
    assert inspect(vhost).absent == ()
    assert any(
        finding.severity is Severity.WARNING for finding in BROKER_SERVER.judge(Seen(broker=facts))
    )


def test_a_probe_tries_every_lane_and_finds_what_was_never_declared(vhost: str) -> None:
    inspection: BrokerInspectionPort = RabbitInspection(vhost)

    before = inspection.probe()
    declare(vhost)
    after = inspection.probe()

    assert before == tuple(LaneReport(lane, LaneState.BROKEN) for lane in range(LANES))
    assert after == tuple(LaneReport(lane, LaneState.OPEN) for lane in range(LANES))
    assert {thing.messages for thing in inspect(vhost).things} == {0}


@pytest.fixture
def planned_mysql(migrated_mysql: URL) -> URL:
    """The database of a house at work today: what the years of other tests left there is gone."""
    with server_ledger(FrozenClock(SystemClock().now()), migrated_mysql) as ledger:
        ledger.plan_edited()
    return migrated_mysql


def test_in_production_the_command_looks_at_both_servers(
    applied: Path, vhost: str, planned_mysql: URL
) -> None:
    declare(vhost)
    settings = {
        "CRON_BROKER_URL": vhost,
        "CRON_DATABASE_URL": planned_mysql.render_as_string(hide_password=False),
    }

    said = Shell(applied)("doctor", "--jobs", "jobs.toml", "--json", "--probe", **settings)

    assert said.status == 0, said.out
    subjects = {subject for subject, _ in told(said, "ok")}
    assert {"settings", "database", "schema", "clock", "broker", "queues", "lanes"} <= subjects
    assert said.err == ""
