"""The troubles beside which the innocent are watched. Each is bounded, and stops when left."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.resources import files
from itertools import count

import pika

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from tests.integration import amqp
from tests.ports import ids_of
from tests.production.neighbours import SCHEDULES, Town, Trouble, nothing, repeatedly
from tests.production.plant import PATIENCE, SCHEDULER, Process
from tests.services import mariadb, rabbitmq
from tests.services.finding import wait_until

#: What the troubles' tasks do. The crowd has a queue and a worker of their own: what is asked is
#: whether planning them keeps anybody waiting, not how fast a thousand processes are started.
JOBS = """
[tasks.babbles]
type = "worker"
id = 2
timeout = "70s"
command = ["yes", ""]

[tasks.stops-its-warden]
type = "worker"
id = 3
timeout = "20s"
command = ["/bin/sh", "-c", "kill -STOP $PPID; sleep 15"]

[tasks.true]
type = "worker"
id = 4
command = ["/bin/true"]

[tasks.slow]
type = "worker"
id = 5
command = ["sleep", "5"]

[schedules.guilty]
task = "babbles"
schedule = "@yearly"
retry = { attempts = 1 }
"""

JUDGED = "SELECT COUNT(*) FROM SchedulerPlan WHERE problem IS NOT NULL"

MANY, CROWD = 1_000, "name LIKE 'crowd-%'"
CROWD_QUEUE = "cron_scheduler.crowd"
QUEUES = f"cron_scheduler,{CROWD_QUEUE}"

#: Statements that make one schedule each unreadable; the column is what they spoil.
SPOILT_SCHEDULES = {
    "brackets": "retry = REPEAT('[', 5000)",
    "zeros": """retry = CONCAT('{"attempts": 2, "backoff": {"type": "exponential", '
        '"delay": 1000, "multiplier": 1', REPEAT('0', 400), '}}')""",
    "params": "params = REPEAT('[', 5000)",
    "cron": "schedule = REPEAT('9', 255)",
    "zone": "timezone = '../../etc/passwd'",
    "start": "starts_at = 'never'",
    "cap": "misfire_policy = 'all', misfire_cap = 1000000000",
    "window": "misfire_window_ms = 9223372036854775807",
    "timeout": "timeout_ms = -9223372036854775808",
    "queue": "queue = REPEAT('q', 255)",
    "task": "worker_id = -1",
    "stamp": "updated_at = 'garbage'",
}
SPOILT_EXECUTIONS = {
    "due": "due_at = '0000-00-00'",
    "retry": "retry = REPEAT('[', 5000)",
    "timeout": "timeout_ms = 1000000000000000000",
    "attempt": "attempt = -1",
    "deaths": "deaths = 2147483647",
    "crashes": "crashes = -2147483648",
    "type": "task_type = REPEAT('t', 32)",
    "id": "task_id = -1",
    "queue": "queue = REPEAT('q', 255)",
    "error": "last_error = REPEAT('[', 5000)",
    "moment": "next_attempt_at = '0000-00-00'",
    "owner": "owner = REPEAT('o', 255)",
}


@contextmanager
def rows(town: Town) -> Iterator[None]:
    """Rows in every table that nobody can read."""
    arena = town.plant.arena
    names = [f"spoilt-{name}" for name in SPOILT_SCHEDULES]
    drafts = [
        ScheduleDraft(name=name, task=TaskRef("worker", 4), schedule="* * * * *") for name in names
    ]
    arena.schedules.save(drafts, source=None, now=arena.claims.now())
    ids = ids_of(arena.schedules, names)
    statements = [
        f"UPDATE Scheduler SET {spoilt} WHERE id = {ids[f'spoilt-{name}']}"
        for name, spoilt in SPOILT_SCHEDULES.items()
    ]
    statements += _spoilt_plans(list(ids.values()))
    statements += _spoilt_executions(town.ids["guilty"])
    mariadb.run(arena.database, "SET SESSION sql_mode = ''", *statements)
    yield


def _spoilt_plans(ids: list[int]) -> list[str]:
    those = ", ".join(map(str, ids[:4]))
    return [
        f"UPDATE SchedulerPlan SET planned_at = 'garbage' WHERE scheduler_id IN ({those})",
        f"UPDATE SchedulerPlan SET next_due_at = '0000-00-00' WHERE scheduler_id = {ids[4]}",
        f"UPDATE SchedulerPlan SET problem = REPEAT('p', 100000) WHERE scheduler_id = {ids[5]}",
    ]


_EXECUTION = """
INSERT INTO SchedulerExecution (scheduler_id, execution_key, executed_at, container_id, due_at,
    state, task_type, task_id, queue, params, check_at, lease_until, owner, published_at)
VALUES ({schedule}, '{key}', UTC_TIMESTAMP(6), 'x', UTC_TIMESTAMP(6),
    '{state}', 'worker', 4, 'cron_scheduler', '{{}}', UTC_TIMESTAMP(6) - INTERVAL 1 DAY,
    IF('{state}' = 'running', UTC_TIMESTAMP(6), NULL), 'x', UTC_TIMESTAMP(6) - INTERVAL 1 DAY)"""
_SPOIL = "UPDATE SchedulerExecution SET {spoilt} WHERE execution_key = '{key}'"
_ATTEMPT = """
INSERT INTO ExecutionAttempt (execution_id, attempt, node, started_at, ending, error)
SELECT id, 1, 'x', '0000-00-00', 'garbage', REPEAT('[', 5000)
FROM SchedulerExecution WHERE execution_key = '{key}'"""
_OUTPUT = """
INSERT INTO AttemptOutput (execution_id, attempt, stdout_head, stdout_tail, stdout_bytes,
    stderr_head, stderr_tail, stderr_bytes)
SELECT id, 1, X'00', X'1b', -1, REPEAT('e', 9000), '', 9223372036854775807
FROM SchedulerExecution WHERE execution_key = '{key}'"""
_FAILED = """
INSERT INTO FailedTask (execution_id, scheduler_id, schedule_name, execution_key, kind, task_type,
    task_id, queue, params, failed_at, failed_reason, error, attempts, retry_count)
VALUES (-1, -1, X'1b', '', 'garbage', 't', -1, '', REPEAT('[', 5000), '0000-00-00', '',
    REPEAT('[', 5000), -1, -1)"""

LOOKED_AT = ("claimed", "published", "retrying", "running", "garbage")


def _spoilt_executions(schedule: int) -> list[str]:
    """Write runs in all states that are looked at, and what belongs to them, and spoil them."""
    statements = [_FAILED]
    for name, spoilt in SPOILT_EXECUTIONS.items():
        for state in LOOKED_AT:
            row = {"schedule": schedule, "key": f"spoilt-{name}-{state}", "state": state}
            row["spoilt"] = spoilt
            every = (_EXECUTION, _SPOIL, _ATTEMPT, _OUTPUT)
            statements += [statement.format(**row) for statement in every]
    return statements


def _nested(deep: int) -> list[object]:
    nested: list[object] = []
    for _ in range(deep):
        nested = [nested]
    return nested


#: Properties that AMQP allows and that break who decodes them carelessly.
UNDECODABLE = (
    pika.BasicProperties(timestamp=1_700_000_000_000_000),
    pika.BasicProperties(timestamp=1_700_000_000_000_000_000),
    pika.BasicProperties(message_id=b"\xff\xfe"),
    pika.BasicProperties(headers={b"\xff": 1}),
    pika.BasicProperties(headers={"x": _nested(600)}),
)


BODY = b"x" * 20 * 2**20

#: Seconds; of no period that a minute is a multiple of, or all minutes would feel the same of it.
BODY_EVERY = 2.9


@contextmanager
def deliveries(town: Town) -> Iterator[None]:
    """Ten deliveries a second that nobody can decode."""
    numbers = count()
    body = town.message("guilty", 4)

    def publish() -> None:
        town.publish(body, UNDECODABLE[next(numbers) % len(UNDECODABLE)])

    with repeatedly(publish, every=0.1):
        yield


@contextmanager
def bodies(town: Town) -> Iterator[None]:
    """A body of 20 MiB every three seconds."""
    with repeatedly(lambda: town.publish(BODY), every=BODY_EVERY):
        yield


@contextmanager
def bodies_aside(town: Town) -> Iterator[None]:
    """The same into a queue that nobody consumes: what of it is the broker's own."""
    keeps_two = {"x-queue-type": "quorum", "x-max-length": 2}
    with amqp.channel(town.plant.broker_url) as plain:
        plain.queue_declare("aside", durable=True, arguments=keeps_two)
    with repeatedly(lambda: town.publish(BODY, queue="aside"), every=BODY_EVERY):
        yield


@contextmanager
def babble(town: Town) -> Iterator[None]:
    """Three tasks that write empty lines without end."""
    for _ in range(3):
        town.publish(town.message("guilty", 2))
    yield


@contextmanager
def warden(town: Town) -> Iterator[None]:
    """A task that stops the warden of its worker, twice a minute."""
    with repeatedly(lambda: town.publish(town.message("guilty", 3)), every=30.0):
        yield


@contextmanager
def crowd(town: Town) -> Iterator[None]:
    """A thousand other schedules are due each minute."""
    _plan_a_crowd(town)
    yield


@contextmanager
def behind(town: Town) -> Iterator[None]:
    """The crowd is a week behind, and each catches up by one run."""
    _plan_a_crowd(town)
    now = town.plant.arena.claims.now()
    week = f"'{(now - timedelta(days=7)).replace(tzinfo=None):%Y-%m-%d %H:%M:00}'"
    town.plant.query(
        f"UPDATE SchedulerPlan JOIN Scheduler ON id = scheduler_id SET next_due_at = {week} "
        f"WHERE {CROWD}"
    )
    yield


def _plan_a_crowd(town: Town) -> None:
    plant, arena = town.plant, town.plant.arena
    plant.start("worker", "--jobs", "jobs.toml", "--queues", CROWD_QUEUE)
    names = [f"crowd-{n}" for n in range(MANY)]
    drafts = [
        ScheduleDraft(name=name, task=TaskRef("worker", 4), schedule="* * * * *", queue=CROWD_QUEUE)
        for name in names
    ]
    arena.schedules.save(drafts, source=None, now=arena.claims.now())
    planned = "SELECT COUNT(*) FROM SchedulerPlan JOIN Scheduler ON id = scheduler_id "
    wait_until(
        lambda: plant.query(f"{planned} WHERE {CROWD}") == [(MANY,)],
        seconds=PATIENCE,
        every=0.2,
        what="planning",
    )


@contextmanager
def old_zones(town: Town) -> Iterator[None]:
    """A replica does not know the zone of the innocent, and is the first to see them edited."""
    old = town.plant.arena.folder / "old"
    (old / "zones").mkdir(parents=True)
    (old / "tzdata").mkdir()
    (old / "tzdata" / "__init__.py").touch()  # hides the package of that name
    (old / "zones" / "UTC").write_bytes(files("tzdata.zoneinfo").joinpath("UTC").read_bytes())
    ours = os.environ.get("PYTHONPATH", "")
    paths = {"PYTHONPATH": f"{old}{os.pathsep}{ours}", "PYTHONTZPATH": str(old / "zones")}
    new = [each for each in town.plant.processes if SCHEDULER[0] in str(each.args)]
    town.plant.start(*SCHEDULER, **paths)
    town.plant.wait_until_all_work(workers=2)
    time.sleep(5)  # until it has compared all schedules
    with standing_still(new):
        town.plant.query("UPDATE Scheduler SET description = 'edited' WHERE name LIKE 'innocent-%'")
        wait_until(
            lambda: town.plant.query(JUDGED) == [(SCHEDULES,)],
            seconds=PATIENCE,
            every=0.2,
            what="the verdict of the old replica",
        )
    yield


@contextmanager
def standing_still(processes: Sequence[Process]) -> Iterator[None]:
    """Hold processes still for a while."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


#: Seconds.
OUTAGE = 40.0


def bodies_refused(broker: rabbitmq.Server) -> Trouble:
    """Have the same bodies meet a broker that takes no giants."""

    @contextmanager
    def trouble(town: Town) -> Iterator[None]:
        with rabbitmq.smallness(broker), bodies(town):
            yield

    return trouble


def ledger_away(server: mariadb.Server) -> Trouble:
    """Let the ledger be away for 40 s, with deliveries waiting for it."""

    @contextmanager
    def trouble(town: Town) -> Iterator[None]:
        with town.outage():
            server.kill()
            for _ in range(4):  # so long that their lease has to be held from their start
                town.publish(town.message("guilty", 5))
            with repeatedly(town.publish_innocent, every=1.0):
                time.sleep(OUTAGE)
            server.start()
        yield

    return trouble


def troubles(broker: rabbitmq.Server, server: mariadb.Server) -> dict[str, Trouble]:
    """Name the troubles; the first is none."""
    return {
        "nothing": nothing,
        "rows": rows,
        "deliveries": deliveries,
        "bodies": bodies,
        "bodies-aside": bodies_aside,
        "bodies-refused": bodies_refused(broker),
        "babble": babble,
        "warden": warden,
        "crowd": crowd,
        "behind": behind,
        "ledger-away": ledger_away(server),
        "old-zones": old_zones,
    }
