from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from cronhare.adapters.rabbitmq.topology import guide
from cronhare.adapters.sql.dialects.servers import REQUIREMENTS
from cronhare.application.doctor import nodes, queues, servers, work
from cronhare.application.doctor.finding import Finding, Seen, SettingsFacts
from cronhare.application.doctor.servers import BROKER, DATABASE
from cronhare.domain.nodes import NodeReport
from cronhare.domain.schedules.task import Task, TaskRef
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
    LedgerFacts,
    Link,
    Owner,
    Quarantined,
    ScheduleFacts,
    SchemaFault,
    Severity,
    Thing,
    Unreachable,
    Waiting,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OK, NOTE, WARNING, ERROR = Severity.OK, Severity.NOTE, Severity.WARNING, Severity.ERROR

GUIDE = guide("jobs")
RABBIT = BrokerFacts(product="RabbitMQ", version="3.10.8", guide=GUIDE)
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
EMBEDDED = SettingsFacts(on_one_file=True, in_memory=True, lease=timedelta(seconds=30))
REPORT = TaskRef("report", 25)
SERVED_BY_NOBODY = {"mails": 0}


def queue(name: str = "cron_scheduler", **facts: Any) -> Thing:  # noqa: ANN401 - fields of it
    return attrs.evolve(Thing(kind=Kind.QUEUE, name=name, fit=Fit.FITS), **facts)


def differing(name: str, argument: str, wanted: str | None, found: str | None) -> Thing:
    difference = Difference(argument=argument, wanted=wanted, found=found)
    return queue(name, fit=Fit.DIFFERS, difference=difference)


def of_things(*things: Thing) -> list[Finding]:
    return list(queues.QUEUES.judge(Seen(broker=attrs.evolve(RABBIT, things=things))))


def of_broker(facts: BrokerFacts) -> list[Finding]:
    return list(servers.BROKER_SERVER.judge(Seen(broker=facts)))


def of_ledger(facts: LedgerFacts) -> list[Finding]:
    return list(servers.LEDGER.judge(Seen(ledger=facts)))


def of_schedules(
    schedules: Sequence[ScheduleFacts], tasks: Sequence[Task] | None, subject: str = "tasks"
) -> list[Finding]:
    seen = Seen(ledger=attrs.evolve(LEDGER, schedules=schedules), tasks=tasks)
    return [each for each in work.SCHEDULES.judge(seen) if each.subject == subject]


def of_database(facts: DatabaseFacts) -> list[Finding]:
    found = of_ledger(attrs.evolve(LEDGER, database=facts))
    return [finding for finding in found if finding.subject == "database"]


def of_activity(**facts: Any) -> list[Finding]:  # noqa: ANN401 - fields of an Activity
    activity = attrs.evolve(Activity(now=NOON), **facts)
    return list(nodes.NODES.judge(Seen(ledger=attrs.evolve(LEDGER, activity=activity))))


def task(name: str = "refresh", **limits: Any) -> Task:  # noqa: ANN401 - fields of a Task
    return Task(name=name, ref=REPORT, command=("true",), **limits)


def worst(findings: Iterable[Finding]) -> Severity:
    return max((finding.severity for finding in findings), key=list(Severity).index)


def only(findings: Iterable[Finding], severity: Severity) -> Finding:
    [finding] = [finding for finding in findings if finding.severity is severity]
    return finding


@pytest.mark.parametrize("server", [BROKER, DATABASE])
@pytest.mark.parametrize("cause", Cause)
def test_a_server_that_cannot_be_used_is_an_error_whose_cure_names_its_setting(
    server: object, cause: Cause
) -> None:
    away = Unreachable(cause, "nobody there")
    [finding] = (
        servers.LEDGER.judge(Seen(ledger=away))
        if server is DATABASE
        else servers.BROKER_SERVER.judge(Seen(broker=away))
    )

    assert finding.severity is ERROR
    assert "nobody there" in finding.what
    assert ("CRON_DATABASE_URL" if server is DATABASE else "CRON_BROKER_URL") in finding.cure


@pytest.mark.parametrize("version", ["3.10.0", "3.13.7", "4.0.0-rc.1", "4.3.1"])
def test_rabbitmq_from_3_10_to_4_is_what_we_are_made_for(version: str) -> None:
    findings = of_broker(attrs.evolve(RABBIT, version=version))

    assert worst(findings) is OK
    assert findings[0].what == f"RabbitMQ {version}"


@pytest.mark.parametrize(
    ("product", "version", "severity"),
    [
        ("RabbitMQ", "3.9.29", ERROR),
        ("RabbitMQ", "5.0.0", WARNING),
        ("RabbitMQ", "nightly", WARNING),
        ("LavinMQ", "2.0.0", WARNING),
    ],
)
def test_another_broker_or_version_is_told_with_what_to_do(
    product: str, version: str, severity: Severity
) -> None:
    findings = of_broker(attrs.evolve(RABBIT, product=product, version=version))

    assert only(findings, severity).cure


def test_an_alarm_is_an_error_in_the_brokers_own_words() -> None:
    finding = only(of_broker(attrs.evolve(RABBIT, alarm="low on memory")), ERROR)

    assert "low on memory" in finding.what
    assert "vm_memory_high_watermark" in finding.cure


def test_a_broker_that_does_not_answer_to_a_message_is_an_error() -> None:
    finding = only(of_broker(attrs.evolve(RABBIT, answered=False)), ERROR)

    assert "does not answer" in finding.what


def test_what_is_missing_is_told_in_one_finding() -> None:
    missing = [queue(f"q{number}", fit=Fit.MISSING) for number in range(7)]

    finding = only(of_things(*missing), WARNING)

    assert finding.what == "Not there yet: q0, q1, q2, q3, q4 and 2 others"
    assert "start a scheduler or a worker" in finding.cure


def test_a_missing_queue_that_nobody_is_told_to_serve_is_not_declared_by_who_serves_others() -> (
    None
):
    missing = [queue("cron_scheduler", fit=Fit.MISSING), queue("mails", fit=Fit.MISSING)]
    other, third, fourth = (
        ScheduleFacts(name=name, task=REPORT) for name in ("other", "third", "fourth")
    )
    schedules = [
        attrs.evolve(each, queue=queue)
        for each, queue in ((other, "mails"), (third, "mails"), (fourth, "served"))
    ]

    ours, theirs = queues.QUEUES.judge(
        Seen(
            broker=attrs.evolve(RABBIT, things=tuple(missing)),
            ledger=attrs.evolve(LEDGER, schedules=schedules),
            jobs="--jobs jobs.toml",
        )
    )

    assert ours.what == "Not there yet: cron_scheduler"
    assert theirs.severity is WARNING
    assert theirs.what.endswith("was started: mails, of schedules other, third")
    assert theirs.cure.startswith("`cronhare worker --jobs jobs.toml --queues mails`, or add it to")
    assert "correct `queue` of schedules other, third" in theirs.cure


@pytest.mark.parametrize(
    ("thing", "severity", "cure"),
    [
        (
            differing("cron_scheduler_retry", "x-message-ttl", "30000", "1000"),
            WARNING,
            "set CRON_RETRY_DELAY_MS=1000; or: ",
        ),
        (
            differing("cron_scheduler_retry.03", "x-message-ttl", "800", "900"),
            ERROR,
            "rabbitmqctl delete_queue --vhost jobs cron_scheduler_retry.03 --if-empty",
        ),
        (
            differing("cron_scheduler", "x-queue-type", "quorum", None),
            WARNING,
            "set CRON_QUEUE_TYPE=classic; or: ",
        ),
        (
            differing("cron_scheduler", "x-queue-type", None, "quorum"),
            WARNING,
            "set CRON_QUEUE_TYPE=quorum; or: ",
        ),
        (differing("cron_scheduler", "x-delivery-limit", "20", "3"), WARNING, "delete_queue"),
        (
            differing("cron_scheduler", "x-dead-letter-exchange", "cron_dlx", None),
            ERROR,
            "delete_queue",
        ),
        (differing("cron_scheduler", "durable", "true", "false"), ERROR, "delete_queue"),
    ],
)
def test_another_argument_is_as_bad_as_what_it_breaks_and_has_its_own_cure(
    thing: Thing, severity: Severity, cure: str
) -> None:
    finding = only(of_things(attrs.evolve(thing, consumers=1)), severity)

    assert f"{thing.difference}. It is used as it is" in finding.what
    assert cure in finding.cure


@pytest.mark.parametrize(("messages", "severity"), [(0, NOTE), (3, ERROR)])
def test_a_task_queue_without_a_consumer_is_worse_when_messages_wait(
    messages: int, severity: Severity
) -> None:
    finding = only(of_things(queue(messages=messages)), severity)

    command = "cronhare worker --jobs JOBS.TOML --queues cron_scheduler"
    others = (
        "add it to CRON_QUEUES of one that runs (`cronhare up` serves those of its own jobs file)"
    )
    assert finding.cure == f"start a worker: `{command}`, or {others}"


def test_runs_that_are_quarantined_are_a_warning_until_somebody_has_resolved_them() -> None:
    [warning] = of_quarantine(Quarantined(unresolved=2, of_late=4), 4)

    assert warning.severity is WARNING
    assert warning.what.startswith("2 runs are quarantined")
    assert "cronhare quarantine discard ID" in warning.cure
    assert of_quarantine(Quarantined(of_late=4), 4) == []


def of_quarantine(runs: Quarantined, messages: int) -> list[Finding]:
    activity = Activity(now=NOON, quarantined=runs)
    thing = queue("cron_scheduler_quarantine", messages=messages)
    seen = Seen(
        ledger=attrs.evolve(LEDGER, activity=activity),
        broker=attrs.evolve(RABBIT, things=(thing,)),
    )
    found = [*work.RUNS.judge(seen), *queues.QUEUES.judge(seen)]
    return [finding for finding in found if finding.severity is not OK]


@pytest.mark.parametrize("runs", [Quarantined(of_late=4), Quarantined()])
def test_messages_that_no_run_accounts_for_are_a_warning(runs: Quarantined) -> None:
    [finding] = of_quarantine(runs, 5)

    assert finding.severity is WARNING
    assert finding.what.startswith("5 messages in cron_scheduler_quarantine")
    assert "unreadable" in finding.what
    assert "`rabbitmqctl purge_queue --vhost jobs cron_scheduler_quarantine`" in finding.cure


def test_what_waits_is_a_warning_and_an_error_where_nobody_brings_it_back() -> None:
    waiting = attrs.evolve(queue("cron_scheduler_waiting"), messages=3)

    served = only(of_things(attrs.evolve(waiting, consumers=1)), WARNING)
    unserved = only(of_things(attrs.evolve(waiting, consumers=0)), ERROR)

    assert served.what == unserved.what
    assert served.what.startswith("3 messages in cron_scheduler_waiting")
    assert "start a worker" in str(unserved.cure)


@pytest.mark.parametrize("facts", [MARIADB, SQLITE])
def test_a_database_as_it_must_be_has_nothing_to_mend(facts: DatabaseFacts) -> None:
    findings = of_database(facts)

    assert worst(findings) is OK
    assert f"{facts.product} {facts.version}" in [finding.what for finding in findings]


@pytest.mark.parametrize(
    ("product", "version", "severity"),
    [
        ("MariaDB", "10.5.29", ERROR),
        ("MariaDB", "11.8.2", OK),
        ("MySQL", "5.7.44", ERROR),
        ("MySQL", "8.0.36", OK),
        ("SQLite", "3.22.0", ERROR),
        ("Percona", "9", WARNING),
    ],
)
def test_the_database_must_know_what_the_statements_ask_for(
    product: str, version: str, severity: Severity
) -> None:
    known = REQUIREMENTS.get(product)
    facts = DatabaseFacts(product=product, version=version, requirements=known)

    findings = of_database(facts)

    assert worst(findings) is severity


@pytest.mark.parametrize(
    ("setting", "value", "severity"),
    [
        ("read_only", "ON", ERROR),
        ("innodb_flush_log_at_trx_commit", "2", WARNING),
        ("max_allowed_packet", "1048576", WARNING),
    ],
)
def test_a_setting_of_the_server_that_must_not_be_is_told_with_what_it_does(
    setting: str, value: str, severity: Severity
) -> None:
    facts = attrs.evolve(MARIADB, settings={**MARIADB.settings, setting: value})

    finding = only(of_database(facts), severity)

    assert finding.what.startswith(f"{setting} is {value or 'empty'}: ")
    assert finding.cure


def test_a_setting_of_the_file_that_must_not_be_is_told() -> None:
    facts = attrs.evolve(SQLITE, settings={"journal_mode": "delete"})

    assert only(of_database(facts), WARNING).what.startswith("journal_mode is delete: ")


def test_a_schema_of_another_version_is_an_error_with_its_own_cure() -> None:
    fault = SchemaFault("It is at schema 0001, not 0002", "run `cronhare db upgrade`")

    finding = only(of_ledger(attrs.evolve(LEDGER, schema=fault)), ERROR)

    assert (finding.what, finding.cure) == (fault.what, fault.cure)


@pytest.mark.parametrize(
    ("seconds", "severity"), [(0, OK), (1, OK), (-1, OK), (1.001, WARNING), (-3600, WARNING)]
)
def test_a_clock_may_be_a_second_off(seconds: float, severity: Severity) -> None:
    skew = timedelta(seconds=seconds)

    findings = of_ledger(attrs.evolve(LEDGER, skew=skew))

    [clock] = [finding for finding in findings if finding.subject == "clock"]
    assert clock.severity is severity
    assert f"{seconds:+.3f} s" in clock.what


def test_what_is_due_this_minute_is_told_as_not_claimed_yet() -> None:
    [late] = of_activity(next_due=NOON - timedelta(seconds=34))
    [coming] = of_activity(next_due=NOON)

    assert late.what == "What was due at 2026-03-01 11:59:26Z, 34 s ago, is not claimed yet"
    assert coming.severity is Severity.NOTE
    due = "Nothing is overdue; the next is due at 2026-03-01 12:00:00Z"
    assert coming.what == f"{due}; no node reports itself"
    assert "cronhare" in coming.cure


def test_a_node_that_vanished_with_its_tasks_must_be_seen_to() -> None:
    gone = Owner(name="ant-7", running=2, lease_until=NOON - timedelta(minutes=2))

    finding = only(of_activity(owners=[gone]), ERROR)

    assert finding.what.startswith("ant-7 vanished with 2 tasks")


def test_a_row_that_cannot_be_planned_is_a_warning() -> None:
    broken = ScheduleFacts(name="nightly", task=None, problem="schedule: minute: 61")

    assert (
        "nightly cannot be planned: schedule: minute: 61"
        in only(of_schedules([broken], None, "schedules"), WARNING).what
    )
    assert worst(of_schedules([ScheduleFacts(name="daily", task=REPORT)], None, "schedules")) is OK


def test_an_enabled_schedule_whose_task_is_in_no_file_is_a_warning() -> None:
    homeless = ScheduleFacts(name="daily", task=TaskRef("worker", 3), queue="cron_scheduler")

    finding = only(of_schedules([homeless], [task()]), WARNING)

    assert "1 schedule without a task in this jobs file or app: daily (worker 3)" in finding.what
    assert 'type = "worker", id = 3' in finding.cure


def test_rows_that_are_alike_are_counted_and_their_first_names_told() -> None:
    many = ScheduleFacts(
        name="b",
        others=("c", "d"),
        count=1_200,
        task=TaskRef("worker", 3),
    )
    one = ScheduleFacts(name="a", task=TaskRef("worker", 4), queue="mails")

    homeless = only(of_schedules([many, one], [task()]), WARNING).what
    [sound] = of_schedules([many, one], None, "schedules")
    [broken] = of_schedules([attrs.evolve(many, problem="minute: 61"), one], None, "schedules")

    assert "1,201 schedules" in homeless
    assert "a (worker 4), b (worker 3), c (worker 3), d (worker 3) and 1,197 others" in homeless
    assert sound.what == "1,201 schedules, none with a fault"
    assert broken.what == "b, c, d and 1,197 others cannot be planned: minute: 61"


def waiting(queue: str = "mails", *, sent: bool = True, runs: int = 14) -> Waiting:
    since = NOON - timedelta(seconds=61)
    return Waiting(queue=queue, runs=runs, since=since, sent=sent)


def of_runs(
    *found: Waiting,
    consumers: Mapping[str, int] | InMemory | Unreachable = SERVED_BY_NOBODY,
    at_work: bool = False,
    served: Collection[str] | None = None,
) -> list[Finding]:
    broker = (
        consumers
        if isinstance(consumers, InMemory | Unreachable)
        else attrs.evolve(
            RABBIT, things=tuple(queue(name, consumers=each) for name, each in consumers.items())
        )
    )
    up = NodeReport(
        name="ant-7",
        role="up",
        host="ant",
        started_at=NOON,
        seen_at=NOON,
        version="1",
        queues=tuple(served or ()),
    )
    owner = Owner(name="ant-7", running=1, lease_until=NOON + timedelta(seconds=9))
    activity = Activity(
        now=NOON,
        waiting=found,
        nodes=[] if served is None else [up],
        owners=[owner] if at_work else [],
    )
    seen = Seen(ledger=attrs.evolve(LEDGER, activity=activity), broker=broker)
    return [*work.RUNS.judge(seen)]


def test_runs_on_queues_that_nobody_serves_are_an_outage_with_the_queues_to_serve() -> None:
    found = [waiting("mails"), waiting("reports", runs=1), waiting("served")]

    findings = of_runs(*found, consumers={"served": 1, "mails": 0})

    finding = only(findings, ERROR)
    assert finding.what.startswith("15 runs wait since 2026-03-01 11:58:59Z, and nobody serves")
    assert "`cronhare worker --jobs JOBS.TOML --queues mails,reports`" in finding.cure
    assert "CRON_CONCURRENCY" in only(findings, WARNING).cure


def test_in_memory_nobody_is_sent_for_a_worker_that_could_not_be_there() -> None:
    finding = only(of_runs(waiting(), waiting(sent=False), consumers=InMemory()), ERROR)

    assert finding.what.startswith("28 runs wait since 2026-03-01 11:58:59Z in mails")
    assert "`cronhare up --jobs JOBS.TOML`" in finding.cure
    assert "cronhare worker" not in finding.cure


def test_who_has_an_app_is_told_to_start_an_app() -> None:
    own = [ScheduleFacts(name="shop:mail.send", task=REPORT, source="shop")]
    activity = Activity(now=NOON, waiting=[waiting()])
    ledger = attrs.evolve(LEDGER, activity=activity, schedules=own)

    [finding] = work.RUNS.judge(Seen(ledger=ledger, broker=InMemory()))

    assert "`cronhare up --app MODULE:APP`" in finding.cure


def test_in_memory_what_waits_while_anything_runs_waits_for_its_turn() -> None:
    idle, busy = waiting(), attrs.evolve(waiting(), running=1)

    mine = only(of_runs(busy, consumers=InMemory(), at_work=True), WARNING)
    others = only(of_runs(idle, consumers=InMemory(), at_work=True), WARNING)

    assert mine.cure is not None
    assert mine.cure.startswith("raise CRON_CONCURRENCY; a row that another session holds")
    assert "does not serve mails" in others.cure


def test_what_stays_alive_wants_its_task_and_no_queue_that_no_schedule_may_name() -> None:
    alive = waiting("cron_standalone.pump")

    away = only(of_runs(alive, consumers=InMemory()), ERROR)
    idle = only(of_runs(alive, consumers=InMemory(), at_work=True), WARNING)
    unserved = only(of_runs(alive), ERROR)

    for finding in (away, idle):
        assert "add the task to its jobs file" in (finding.cure or "")
        assert "on that queue" not in (finding.cure or "")
        assert "What is not wanted any more: `cronhare executions cancel ID`" in finding.cure
    assert "`cronhare up` with its task in the jobs file" in (unserved.cure or "")
    assert "CRON_QUEUES" not in (unserved.cure or "")


def test_beside_a_broker_that_is_away_nobody_says_who_serves_a_queue() -> None:
    away = Unreachable(Cause.ABSENT, "nobody answers")

    finding = only(of_runs(waiting(), consumers=away), WARNING)

    assert "only the broker can tell" in finding.what


def test_runs_that_were_never_sent_are_an_outage() -> None:
    unsent = waiting(sent=False)

    for consumers in ({"mails": 1}, Unreachable(Cause.ABSENT, "nobody answers")):
        assert "no scheduler runs" in only(of_runs(unsent, consumers=consumers), ERROR).what


@pytest.mark.parametrize("consumers", [{}, InMemory(), Unreachable(Cause.ABSENT, "nobody answers")])
def test_where_nothing_waits_all_is_well(
    consumers: Mapping[str, int] | InMemory | Unreachable,
) -> None:
    assert worst(of_runs(consumers=consumers)) is OK


@pytest.mark.parametrize(
    ("link", "severity", "words"),
    [
        (Link(host="db:1", local=False, tls="TLSv1.3", verified=True), OK, "name verified"),
        (Link(host="lo:1", local=True, tls="TLSv1.3", verified=False), OK, "not verified"),
        (Link(host="lo:1", local=True, tls=None, verified=False), OK, "on this machine"),
        (Link(host="db:1", local=False, tls=None, verified=False), NOTE, "in plain text"),
    ],
)
def test_the_link_to_a_server_is_told(link: Link, severity: Severity, words: str) -> None:
    database = DatabaseFacts(product="MariaDB", version="10.11.6-MariaDB", link=link)
    broker = BrokerFacts(product="RabbitMQ", version="4.1.0", link=link, guide=GUIDE)

    for findings in (of_database(database), of_broker(broker)):
        told = [finding for finding in findings if link.host in finding.what]
        assert [(finding.severity, words in finding.what) for finding in told] == [(severity, True)]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"in_memory": False}, "SQLite ledger"),
        ({"on_one_file": False}, "in-memory broker"),
        ({"lease": timedelta(seconds=6)}, "pauses for 4.0 s"),
    ],
)
def test_settings_that_do_not_belong_together_are_a_warning(
    changes: dict[str, Any], word: str
) -> None:
    seen = Seen(settings=attrs.evolve(EMBEDDED, **changes))

    finding = only(servers.SETTINGS.judge(seen), WARNING)

    assert word in finding.what


def lanes(**states: Iterable[int]) -> list[LaneReport]:
    """Report all sixteen lanes; those that are not named are open."""
    of = {lane: LaneState(state) for state, named in states.items() for lane in named}
    return [LaneReport(lane, of.get(lane, LaneState.OPEN)) for lane in range(16)]


def test_sixteen_open_lanes_are_fine() -> None:
    [finding] = queues.LANES.judge(Seen(lanes=lanes()))

    assert finding == Finding(OK, "lanes", "A probe came through each of 16 lanes")


def test_a_lane_in_which_messages_wait_is_a_note_and_says_until_when() -> None:
    busy, rest = queues.LANES.judge(Seen(lanes=lanes(busy=[3, 15])))

    assert (busy.severity, rest.severity) == (NOTE, OK)
    assert "cron_scheduler_retry.03, cron_scheduler_retry.15" in busy.what
    assert "within 3,276.8 s" in busy.cure
    assert "14 lanes" in rest.what


def test_broken_lanes_are_one_error_that_names_the_first() -> None:
    [finding] = queues.LANES.judge(Seen(lanes=lanes(broken=range(4, 16)), broker=RABBIT))

    assert finding.severity is ERROR
    assert "cron_scheduler_retry.04 to .15" in finding.what
    assert "where cron_scheduler_retry.04 leads" in finding.cure
    assert "list_bindings --vhost jobs" in finding.cure


@pytest.mark.parametrize("at_work", [True, False])
def test_in_memory_what_an_up_at_hand_does_not_serve_waits_for_no_place(*, at_work: bool) -> None:
    runs = [waiting(), waiting("reports")]

    found = [*of_runs(*runs, consumers=InMemory(), at_work=at_work, served={"reports"})]
    unserved, served = found

    assert unserved.severity is ERROR
    assert "in mails, and `cronhare up`, which is there, does not serve it" in unserved.what
    assert unserved.cure.startswith(
        "add a schedule on that queue to its jobs file, and start `cronhare up` anew"
    )
    assert "CONCURRENCY" not in unserved.cure
    assert "mails" not in served.cure + served.what
    assert "has ended" not in served.what
    assert "does not serve" not in served.cure + served.what
