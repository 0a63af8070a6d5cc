"""What the doctor says of what the servers, the settings and the files show.

A case is what was seen, how bad it is, and words of the sentence and of the cure.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import attrs
import pytest

from cronhare.adapters.rabbitmq.topology import guide
from cronhare.adapters.sql.dialects.servers import REQUIREMENTS
from cronhare.application.doctor.doctor import RULES, Doctor
from cronhare.application.doctor.finding import Finding, Seen, SettingsFacts
from cronhare.domain.events.targets import ByCommand, Subscriptions, Target
from cronhare.domain.nodes import NodeReport
from cronhare.domain.retries.limits import Breaker, Budget
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.topology import Topology
from cronhare.ports.inspection import (
    Activity,
    BrokerFacts,
    Cause,
    DatabaseFacts,
    Difference,
    Fit,
    InMemory,
    Kind,
    LaneReport,
    LaneState,
    LastClaim,
    Late,
    LedgerFacts,
    Link,
    Owner,
    Quarantined,
    ScheduleFacts,
    SchemaFault,
    Severity,
    Thing,
    Unreachable,
    UntoldTarget,
    Waiting,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
OK, NOTE, WARNING, ERROR = Severity.OK, Severity.NOTE, Severity.WARNING, Severity.ERROR
AWAY = Unreachable(Cause.ABSENT, "nobody answers")
RABBIT = BrokerFacts(product="RabbitMQ", version="3.10.8", guide=guide("jobs"))

MARIADB = DatabaseFacts(
    product="MariaDB",
    version="10.11.6-MariaDB-1",
    requirements=REQUIREMENTS["MariaDB"],
    settings={
        "read_only": "OFF",
        "innodb_flush_log_at_trx_commit": "1",
        "max_allowed_packet": "16777216",
    },
)

SQLITE = DatabaseFacts(
    product="SQLite",
    version="3.40.1",
    requirements=REQUIREMENTS["SQLite"],
    settings={"journal_mode": "wal"},
)

LEDGER = LedgerFacts(database=MARIADB, schema="0001")
EMBEDDED = SettingsFacts(on_one_file=True, in_memory=True, lease=30 * SECOND)
ANT, BEE = "ant-7-0a1b2c3d4e5f6071", "bee-9-0a1b2c3d4e5f6072"


def of_ledger(**facts: Any) -> Seen:  # noqa: ANN401 - fields of `LedgerFacts`
    return Seen(ledger=attrs.evolve(LEDGER, **facts))


def of_database(facts: DatabaseFacts = MARIADB, **changes: Any) -> Seen:  # noqa: ANN401
    return of_ledger(database=attrs.evolve(facts, **changes))


def of_broker(**facts: Any) -> Seen:  # noqa: ANN401 - fields of `BrokerFacts`
    return Seen(broker=attrs.evolve(RABBIT, **facts))


def of_things(*things: Thing) -> Seen:
    return of_broker(things=things)


def of_activity(*nodes: NodeReport, broker: Any = None, **facts: Any) -> Seen:  # noqa: ANN401
    activity = attrs.evolve(Activity(now=NOON, nodes=nodes), **facts)
    return Seen(ledger=attrs.evolve(LEDGER, activity=activity), broker=broker)


def of_settings(**changes: Any) -> Seen:  # noqa: ANN401 - fields of `SettingsFacts`
    return Seen(settings=attrs.evolve(EMBEDDED, **changes))


def of_schedules(
    *schedules: ScheduleFacts,
    tasks: Sequence[Task] | None = None,
    **seen: Any,  # noqa: ANN401
) -> Seen:
    return Seen(ledger=attrs.evolve(LEDGER, schedules=schedules), tasks=tasks, **seen)


def queue(name: str = "cron_scheduler", **facts: Any) -> Thing:  # noqa: ANN401 - fields of it
    return attrs.evolve(Thing(kind=Kind.QUEUE, name=name, fit=Fit.FITS), **facts)


def differing(argument: str, found: str | None, name: str = "cron_scheduler") -> Seen:
    difference = Difference(argument=argument, wanted="wanted", found=found)
    return of_things(queue(name, fit=Fit.DIFFERS, difference=difference, consumers=1))


def node(name: str = ANT, role: str = "up", **fields: Any) -> NodeReport:  # noqa: ANN401
    known = {"host": name.partition("-")[0], "version": "1.4.0", "seen_at": NOON}
    return NodeReport(name=name, role=role, started_at=NOON, **{**known, **fields})


def waiting(queue: str = "mails", *, sent: bool = True, runs: int = 14) -> Waiting:
    return Waiting(queue=queue, runs=runs, since=NOON - 61 * SECOND, sent=sent)


def lanes(**states: Iterable[int]) -> Seen:
    """Show the answers of all sixteen lanes; those that are not named are open."""
    of = {lane: LaneState(state) for state, named in states.items() for lane in named}
    found = [LaneReport(lane, of.get(lane, LaneState.OPEN)) for lane in range(16)]
    return Seen(lanes=found, broker=RABBIT)


def told_in_vain(name: str, source: str = "jobs.toml") -> Seen:
    """Show a target that was given up, beside a jobs file that has `ops` alone."""
    error = "410 Gone" + " " * 300
    untold = UntoldTarget(name=name, source=source, events=3, last_at=NOON, error=error)
    ops = Target(name="ops", means=ByCommand(command=("true",)))
    ours = Subscriptions(source="jobs.toml", targets={"ops": ops})
    return attrs.evolve(of_activity(untold=[untold]), subscriptions=[ours])


def judge(seen: Seen) -> list[Finding]:
    return [finding for rules in RULES for finding in rules.judge(seen)]


Case: TypeAlias = tuple[Seen, Severity, str, str]

SERVERS: list[Case] = [
    (Seen(ledger=AWAY), ERROR, "It cannot be used: nobody answers", "CRON_DATABASE_URL"),
    (of_broker(version="3.9.29"), ERROR, "is too old", "upgrade to 3.10"),
    (of_broker(version="5.0.0"), WARNING, "is newer than", "a newer cronhare"),
    (of_broker(product="LavinMQ"), WARNING, "was never tried", "use RabbitMQ"),
    (of_broker(alarm="low on memory"), ERROR, "low on memory", "vm_memory_high_watermark"),
    (of_broker(absent=["b: away"]), WARNING, "cannot be used: b: away", "the others serve"),
    (of_database(), OK, "MariaDB 10.11.6", ""),
    (of_database(SQLITE), OK, "Its settings are as they must be: journal_mode", ""),
    (of_database(version="10.5.29"), ERROR, "MariaDB 10.5.29", "upgrade it to MariaDB 10.6"),
    (of_database(settings={"read_only": "ON"}), ERROR, "read_only is ON: ", "read_only"),
    (of_database(SQLITE, settings={"journal_mode": "delete"}), WARNING, "journal_mode is del", ""),
    (of_database(plain_tables=["Scheduler"]), ERROR, "without transactions: Scheduler", "`"),
    (of_ledger(schema=SchemaFault("It is at 0001", "run it")), ERROR, "It is at 0001", "run it"),
    (of_ledger(skew=-1.001 * SECOND), WARNING, "-1.001 s off", "timedatectl"),
    *(
        (
            of(link=Link(host="db:1", local=local, tls=tls, verified=True)),
            severity,
            words,
            "",
        )
        for of, local, tls, severity, words in (
            (of_database, False, "TLSv1.3", OK, "encrypted (TLSv1.3)"),
            (of_broker, True, None, OK, "stays on this machine"),
            (of_broker, False, None, NOTE, "in plain text"),
        )
    ),
    (of_settings(in_memory=False), WARNING, "RabbitMQ with an SQLite ledger", "CRON_DATABASE_URL"),
    (of_settings(on_one_file=False), WARNING, "The in-memory broker is", "CRON_BROKER_URL"),
    (of_settings(lease=6 * SECOND), WARNING, "pauses for 4.0 s", "CRON_LEASE_SECONDS"),
    (of_settings(unknown={"CRON_X": "CRON_Y"}), WARNING, "CRON_X means nothing", "mean CRON_Y?"),
    (
        of_settings(deduplicates=True, in_memory=False),
        WARNING,
        "does nothing for quorum queues",
        "CRON_QUEUE_TYPE=classic",
    ),
]

TASKS_OF_NOBODY = "`cronhare worker --jobs JOBS.TOML --queues mails,reports`"

QUEUES: list[Case] = [
    (
        of_things(*(queue(f"q{number}", fit=Fit.MISSING) for number in range(7))),
        WARNING,
        "Not there yet: q0, q1, q2, q3, q4 and 2 others",
        "start a scheduler or a worker",
    ),
    (
        differing("x-message-ttl", "1000", "cron_scheduler_retry"),
        WARNING,
        "It is used as it is",
        "set CRON_RETRY_DELAY_MS=1000; or: ",
    ),
    (of_things(queue()), NOTE, "has no consumer", "cronhare worker --jobs JOBS.TOML --queues"),
    (of_things(queue(messages=3, consumers=2)), OK, "2 consumers, 3 messages to be taken", ""),
    *(
        (
            of_things(queue("cron_scheduler_waiting", messages=3, consumers=consumers)),
            severity,
            "3 messages in cron_scheduler_waiting",
            cure,
        )
        for consumers, severity, cure in ((1, WARNING, "`attempt.put-off`"), (0, ERROR, "start"))
    ),
    (
        of_activity(
            broker=attrs.evolve(RABBIT, things=(queue("cron_scheduler_quarantine", messages=5),)),
            quarantined=Quarantined(of_late=4),
        ),
        WARNING,
        "5 messages in cron_scheduler_quarantine, some of no run",
        "`rabbitmqctl purge_queue --vhost jobs cron_scheduler_quarantine`",
    ),
    (lanes(), OK, "A probe came through each of 16 lanes", ""),
    (lanes(busy=[3, 15]), NOTE, "cron_scheduler_retry.03, cron_scheduler_retry.15", "3,276.8 s"),
    (
        lanes(broken=range(4, 16)),
        ERROR,
        "cron_scheduler_retry.04 to .15",
        "where cron_scheduler_retry.04 leads: `rabbitmqctl list_bindings --vhost jobs`",
    ),
]

SERVED = attrs.evolve(RABBIT, things=(queue("served", consumers=1), queue("mails")))


CLOSED, LATER = Breaker(task="worker 8", window=MINUTE, last_at=NOON), NOON + MINUTE

RUNS: list[Case] = [
    (
        of_activity(broker=SERVED, waiting=[waiting(), waiting("reports", runs=1)]),
        ERROR,
        "15 runs wait since 2026-03-01 11:58:59Z, and nobody serves mails, reports",
        TASKS_OF_NOBODY,
    ),
    (of_activity(broker=SERVED, waiting=[waiting("served")]), WARNING, "that is free", "CONCURR"),
    (of_activity(broker=SERVED, waiting=[waiting(sent=False)]), ERROR, "no scheduler runs", ""),
    (
        of_activity(broker=InMemory(), waiting=[waiting(), waiting(sent=False)]),
        ERROR,
        "28 runs wait since 2026-03-01 11:58:59Z in mails",
        "start `cronhare up --jobs JOBS.TOML`",
    ),
    (
        of_activity(node(queues=("reports",)), broker=InMemory(), waiting=[waiting()]),
        ERROR,
        "in mails, and `cronhare up`, which is there, does not serve it",
        "add a schedule on that queue to its jobs file, and start `cronhare up` anew",
    ),
    (of_activity(), OK, "None has waited for a worker", ""),
    (of_activity(failures=9), WARNING, "9 runs failed for good", "`cronhare failed replay ID`"),
    (
        of_activity(quarantined=Quarantined(unresolved=2)),
        WARNING,
        "2 runs are quarantined",
        "cronhare quarantine discard ID",
    ),
    (told_in_vain("ops"), WARNING, "notify.ops of jobs.toml was not told of 3", "alerts test ops`"),
    (told_in_vain("pager", "other.toml"), WARNING, "notify.pager of other.toml was not told", ""),
    (of_activity(awaited=1), WARNING, "1 run waits for a worker that has its task", "reload the"),
    (
        of_activity(
            breakers=[
                attrs.evolve(CLOSED, task="worker 7", name="daily", opened_at=NOON, probe_at=LATER),
                CLOSED,
            ]
        ),
        WARNING,
        "The circuit breaker of daily is open",
        "`cronhare breakers reset daily`",
    ),
    (
        of_activity(
            budgets=[
                Budget(queue="mails", most=2, window=MINUTE, grants=((NOON, 2),), granted_at=NOON),
                Budget(queue="reports", most=2, window=MINUTE),
            ]
        ),
        WARNING,
        "The retry budget of mails is spent until 2026-03-01 12:01:00Z",
        "`cronhare budgets list`",
    ),
    (
        of_activity(late_runs=30, late_until=NOON),
        NOTE,
        "30 late runs still to begin, the last at 2026-03-01 12:00:00Z, as CRON_CATCH_UP_BUDGET",
        "`cronhare explain ID`",
    ),
]

TICK, TOCK = Late("tick", NOON - 61 * SECOND), Late("tock", NOON - 60 * SECOND)
GONE = Owner(name=ANT, running=2, lease_until=NOON - 2 * MINUTE)

LONG_SILENT: dict[str, Any] = {"seen_at": NOON - 5 * MINUTE}

NODES: list[Case] = [
    *(
        (
            of_activity(overdue=[TICK, TOCK], last_claim=last),
            ERROR,
            "tick was due at 2026-03-01 11:58:59Z and is not claimed, nor is anything claimed",
            "start `cronhare scheduler`, or `cronhare up` on one machine; if one is running, its",
        )
        for last in (None, LastClaim(NOON - 62 * SECOND, "vm-7"))
    ),
    (
        of_activity(overdue=[TICK], last_claim=LastClaim(NOON - 61 * SECOND, "vm-7")),
        ERROR,
        "though schedulers claim others (the last vm-7 at 2026-03-01 11:58:59Z): its rows are held",
        "`schedule.held`",
    ),
    (of_activity(next_due=NOON), NOTE, "no node reports itself", "cronhare scheduler"),
    (of_activity(node(role="worker")), WARNING, "No scheduler reports itself", "start"),
    (of_activity(node(running=2)), OK, f"{ANT} (up 1.4.0) runs 2 tasks, last seen at", ""),
    (of_activity(owners=[GONE]), ERROR, f"{ANT} vanished with 2 tasks", "start"),
    (of_activity(node(**LONG_SILENT)), NOTE, f"{ANT} (up) is silent since", "start it again"),
    (
        of_activity(node(), node(BEE, version="1.3.0")),
        NOTE,
        f"Different versions are at work: 1.3.0 ({BEE}); 1.4.0 ({ANT})",
        "restart the nodes of the older versions",
    ),
    (
        of_activity(
            node(clock_offset=-3.2 * SECOND),
            node("ant-8", clock_offset=-3.2 * SECOND),
            node(BEE, clock_offset=SECOND),
            node("cat-3", clock_offset=-3.2 * SECOND, **LONG_SILENT),
        ),
        WARNING,
        "Hosts are off the ledger's clock: ant by -3.200 s. ",
        "`timedatectl`",
    ),
    (
        of_activity(broken_rows=["x" * 10**6, *["Alert strange: data"] * 500]),
        WARNING,
        "501 rows cannot be read, and count for nothing: xxx",
        "look for who writes there",
    ),
]

ONE, TWO = TaskRef("worker", 1), TaskRef("worker", 2)

NIGHTLY = ScheduleFacts(
    name="nightly", task=ONE, queue="cron_scheduler", source="jobs.toml", task_name="backup"
)

THEIRS = attrs.evolve(NIGHTLY, name="theirs", task=TWO, source="user.toml", queue="mails")
BACKUP = Task(name="backup", ref=ONE, source="jobs.toml", command=("true",))
SWEEP = attrs.evolve(BACKUP, name="sweep", ref=TWO)
MANY = ScheduleFacts(name="b", others=("c", "d"), count=1_200, task=TaskRef("worker", 3))
ELSEWHERE = attrs.evolve(MANY, name="a", others=(), count=1, task=TaskRef("worker", 4))

SCHEDULES: list[Case] = [
    (
        of_schedules(attrs.evolve(MANY, problem="minute: 61")),
        WARNING,
        "b, c, d and 1,197 others cannot be planned: minute: 61",
        "mend the row",
    ),
    (
        of_schedules(MANY, ELSEWHERE, tasks=[BACKUP]),
        WARNING,
        "1,201 schedules without a task in this jobs file or app: a (worker 4), b (worker 3), ",
        'type = "worker", id = 3',
    ),
    (of_schedules(NIGHTLY), NOTE, "No jobs file or app was given", "--jobs or CRON_JOBS"),
    (
        of_schedules(NIGHTLY, attrs.evolve(THEIRS, queue="cron_scheduler")),
        ERROR,
        "Queue cron_scheduler has schedules of jobs.toml and user.toml",
        "--queues",
    ),
    (
        of_schedules(NIGHTLY, THEIRS, attrs.evolve(THEIRS, name="too"), tasks=[BACKUP]),
        NOTE,
        "2 schedules of user.toml, another file: theirs, too",
        "fine if workers have that file",
    ),
    (
        of_schedules(attrs.evolve(NIGHTLY, task=TWO), tasks=[BACKUP, SWEEP]),
        WARNING,
        "Schedule nightly runs neither",
        "task_name to NULL",
    ),
    (
        of_schedules(
            THEIRS, broker=attrs.evolve(RABBIT, things=(queue("mails", fit=Fit.MISSING),))
        ),
        WARNING,
        "was started: mails, of schedule theirs",
        "--queues mails`, or add it to",
    ),
]


@pytest.mark.parametrize(
    ("seen", "severity", "what", "cure"), [*SERVERS, *QUEUES, *RUNS, *NODES, *SCHEDULES]
)
def test_a_thing_is_told_once_as_bad_as_it_is_and_with_its_cure(
    seen: Seen, severity: Severity, what: str, cure: str
) -> None:
    [found] = [each for each in judge(seen) if what in each.what]

    assert found.severity is severity
    assert cure in found.cure
    assert bool(found.cure) is (severity is not OK)
    assert len(found.what) < 500


@pytest.mark.parametrize(
    ("seen", "is_not_told"),
    [
        (of_activity(node(role="scheduler")), "No scheduler reports itself"),
        (of_activity(overdue=[TOCK], unplanned=[TOCK]), "tock"),
        (of_activity(quarantined=Quarantined(of_late=4)), "quarantine"),
        (told_in_vain("gone"), "notify"),
        (of_schedules(attrs.evolve(THEIRS, queue="cron_scheduler", enabled=False)), "Queue"),
    ],
)
def test_what_is_as_it_should_be_or_is_told_otherwise_is_not_told(
    seen: Seen, is_not_told: str
) -> None:
    assert not [each for each in judge(seen) if is_not_told in each.what]


@pytest.mark.parametrize(
    ("nodes", "unserved"),
    [
        ([], []),
        ([node(BEE, "worker", queues=("reports",))], ["mails"]),
        ([node(BEE, "worker", queues=("mails",), **LONG_SILENT), node()], ["mails, reports"]),
        ([node(queues=("mails", "reports")), node(BEE, "scheduler")], []),
    ],
)
def test_a_queue_that_no_worker_serves_is_named(
    nodes: Sequence[NodeReport], unserved: Sequence[str]
) -> None:
    on = [ScheduleFacts(name=name, task=None, queue=name) for name in ("mails", "reports")]
    activity = Activity(now=NOON, nodes=nodes)

    found = judge(Seen(ledger=attrs.evolve(LEDGER, activity=activity, schedules=on), broker=AWAY))

    told = [each.what for each in found if "No worker reports" in each.what]
    assert told == [f"No worker reports that it serves {each}" for each in unserved]


def test_workers_with_another_version_of_a_file_are_named_with_what_to_do() -> None:
    nodes = [
        node(ANT, source="jobs.toml", digest="old"),
        node(BEE, source="jobs.toml, shop", digest="new, two"),
        node("cat-1-0a1b2c3d4e5f6073", source="user.toml", digest="old"),
        node("dog-1-0a1b2c3d4e5f6074"),
        node("eel-1-0a1b2c3d4e5f6075", source="jobs.toml", digest="old", **LONG_SILENT),
    ]
    files = [FileVersion("jobs.toml", "new"), FileVersion("shop", "one")]

    found = judge(attrs.evolve(of_activity(*nodes), files=files))

    jobs, shop = [each for each in found if "with another version" in each.what]
    assert jobs.what == f"{ANT}: with another version of jobs.toml than this one"
    assert "systemctl reload, or kill -HUP 7 on ant; under nohup restart it)" in jobs.cure
    assert shop.what == f"{BEE}: with another version of shop than this one"


# What is looked at


HOURLY = ScheduleFacts(name="hourly", task=ONE, queue="cron_scheduler.reports")


@attrs.define
class Servers:
    """A ledger or a broker that shows what it was given, and remembers what it was asked for."""

    shows: LedgerFacts | BrokerFacts
    asked: list[Topology] = attrs.field(factory=list[Topology])

    def inspect(self, *topology: Topology) -> Any:  # noqa: ANN401
        self.asked += topology
        return self.shows


@pytest.mark.parametrize(
    ("enabled", "in_use", "of_schedules"),
    [(True, (), 1), (False, (), 0), (False, ("cron_scheduler.reports",), 1)],
)
def test_the_queues_of_the_process_and_of_what_is_on_or_still_runs_are_looked_at(
    *, enabled: bool, in_use: Sequence[str], of_schedules: int
) -> None:
    broker: Any = Servers(RABBIT)
    schedules = [attrs.evolve(HOURLY, enabled=enabled)]
    activity = Activity(now=NOON, queues=in_use)

    ledger = Servers(attrs.evolve(LEDGER, schedules=schedules, activity=activity))

    doctor = Doctor(ledger=ledger, broker=broker)
    list(doctor.examine(Seen(queues=["mails"]), retry_delay=30 * SECOND, probe=False))

    [topology] = broker.asked
    names = [queue.name for queue in topology.queues]
    assert names[:2] == ["cron_scheduler", "mails"]
    assert names.count("cron_scheduler.reports") == of_schedules
