"""A real worker on queues and a table that it shares with programs of the original system."""

import json
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cronhare.domain.execution import State
from cronhare.domain.topology import FAILED_QUEUE, MAIN_QUEUE, QUARANTINE_QUEUE
from cronhare.ports.records import ExecutionFilter
from tests.integration import amqp
from tests.integration.original_worker import MAX_RETRIES, OriginalWorker
from tests.production.plant import PATIENCE, Plant, plant
from tests.services.finding import wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.mariadb import run
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

RETRY_DELAY = 0.4

SETTINGS = {
    "CRON_MAX_RETRIES": str(MAX_RETRIES),
    "CRON_RETRY_DELAY_MS": f"{RETRY_DELAY * 1000:.0f}",
    "CRON_RETRY_DELAY_MULTIPLIER": "1",
    "CRON_MESSAGE_KEY": "k" * 32,  # who fails a message of ours proves that he had it
}

JOBS = """
[tasks.refresh-user-token]
type = "report"
id = 25
env = { EFFECTS = "%(effects)s", GIVEN = "%(given)s" }
command = ["/bin/sh", "-c", '''
cat "$CRON_PARAMS_FILE" >> "$GIVEN"
echo "$CRON_EXECUTION_ID $CRON_ATTEMPT" >> "$EFFECTS"
''']

[tasks.always-fails]
type = "report"
id = 26
command = ["/bin/sh", "-c", 'echo "Connection timeout after 30s" >&2; exit 1']
"""

#: As the original's web application writes them.
SCHEDULES = (
    "INSERT INTO Scheduler (id, schedule, params, status, report_id, user_id) VALUES "
    "(16, '0 8 29 2 *', '{}', 1, 25, 7), (17, '0 8 29 2 *', '{}', 1, 26, 7)"
)

#: JSON text inside of the JSON, with what a second writer might write otherwise.
PARAMS = '{ "controller": "RefreshUserToken", "stadt": "Köln", "path": "a/b", "n": 1.0 }'


@pytest.fixture
def shared(rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path) -> Iterator[Plant]:
    """Queues and tables, with nobody at work yet."""
    jobs = JOBS % {"effects": tmp_path / "effects", "given": tmp_path / "given"}
    with plant(tmp_path, rabbitmq, mariadb, jobs, **SETTINGS) as shared:
        run(shared.arena.database, SCHEDULES)
        yield shared


def body(task: int, params: str = PARAMS) -> bytes:
    """The task message, as `JSON.stringify` writes it."""
    text = json.dumps(params, ensure_ascii=False)
    fields = f'"type":"report","id":{task},"scheduler_id":{task - 9},"params_scheduler":{text}'
    return b"{%b}" % fields.encode()


def wait_for(shared: Plant, state: State, *, many: int = 1) -> None:
    which = ExecutionFilter(states={state}, limit=1_000)
    wait_until(
        lambda: len(shared.arena.records.executions(which)) == many,
        seconds=PATIENCE,
        every=0.1,
        what=f"{many} {state.value}",
    )


def test_a_message_that_was_published_by_hand_runs_once_and_is_in_the_ledger(
    shared: Plant,
) -> None:
    shared.start_worker()
    shared.wait_until_all_work(workers=1)

    shared.publish(body(25))
    wait_for(shared, State.SUCCEEDED)
    shared.stop()

    [execution] = shared.arena.executions()
    [attempt] = shared.arena.records.attempts(execution.id)
    assert (execution.scheduler_id, str(execution.task)) == (16, "report 25")
    assert (execution.params, execution.key[:7]) == (PARAMS, "manual-")
    assert (attempt.attempt, attempt.ending, attempt.exit_code) == (1, "succeeded", 0)
    assert shared.arena.starts() == {(execution.id, 1): 1}
    assert json.loads((shared.arena.folder / "given").read_text()) == json.loads(PARAMS)
    assert amqp.depth(shared.broker_url, MAIN_QUEUE) == 0
    assert shared.troubles() == []


def test_a_task_of_a_message_by_hand_that_fails_is_retried_and_fails_in_the_original_words(
    shared: Plant,
) -> None:
    shared.start_worker(CRON_FAILED_MONITOR="off")
    shared.wait_until_all_work(workers=1)

    shared.publish(body(26))
    wait_for(shared, State.FAILED)
    shared.stop()

    [execution] = shared.arena.executions()
    attempts = shared.arena.records.attempts(execution.id)
    assert [one.ending for one in attempts] == ["failed"] * 4
    assert [one.retry_count for one in shared.arena.records.archive()] == [3]
    failed = one_failed(shared)
    told = re.escape(body(26)[:-1]) + (
        rb',"failed_at":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"'
        rb',"failed_reason":"([^"]*)","retry_count":3}'
    )
    said = re.fullmatch(told, failed["body"])
    assert said, failed["body"]
    assert datetime.fromisoformat(said[1].decode()).tzinfo is not None
    assert said[2].decode() == execution.last_error
    assert (failed["exchange"], failed["key"], failed["mode"]) == ("cron_dlx", "failed", 2)


def test_workers_of_both_kinds_share_a_queue_and_every_death_is_counted(shared: Plant) -> None:
    many, stop = 12, threading.Event()
    bodies = {n: body(26, f'{{"n": {n}}}') for n in range(many)}
    shared.start_worker()
    shared.wait_until_all_work(workers=1)
    theirs = OriginalWorker(shared.broker_url)
    working = threading.Thread(target=theirs.work, kwargs={"stop": stop})
    working.start()
    shared.wait_until_all_work(workers=2)

    for each in bodies.values():
        shared.publish(each)
    try:
        wait_until(
            lambda: len(shared.arena.records.archive()) == many,
            seconds=PATIENCE,
            every=0.1,
            what="the archive of all of them",
        )
    finally:
        stop.set()
        working.join()
    shared.stop()

    archived = shared.arena.records.archive()
    assert Counter(one.params for one in archived) == {f'{{"n": {n}}}': 1 for n in bodies}
    assert shared.arena.unfinished() == []
    assert [amqp.depth(shared.broker_url, each) for each in (MAIN_QUEUE, FAILED_QUEUE)] == [0, 0]
    ours = [one for one in archived if bodies[number_of(one.params)] not in theirs.given_up]
    for one in ours:
        attempts = len(shared.arena.records.attempts(one.execution_id))
        deaths = theirs.nacked[bodies[number_of(one.params)]] + attempts
        assert one.retry_count == deaths - 1 >= MAX_RETRIES
    assert ours
    assert theirs.nacked.total() > 0


@pytest.mark.long
def test_a_message_that_ends_each_worker_ends_four_and_no_fifth_and_its_neighbour_runs(
    shared: Plant,
) -> None:
    mortal = ("tests.integration.mortal_worker", "worker", "--jobs", "jobs.toml")
    first = shared.start_worker()
    shared.wait_until_all_work(workers=1)
    shared.stop()
    shared.processes.remove(first)
    shared.publish(body(25, '{"poison": true}'))
    shared.publish(body(25))

    for _ in range(4):
        died = shared.arena.start_module(*mortal, CRON_CONCURRENCY="8")
        assert died.wait(PATIENCE) == -signal.SIGKILL
    shared.processes.append(shared.arena.start_module(*mortal, CRON_CONCURRENCY="8"))
    wait_for(shared, State.SUCCEEDED)
    shared.stop()

    [said] = shared.lines("message.parked")
    assert "it ended its worker 3 times within 300 s" in said["message"]
    assert amqp.depth(shared.broker_url, QUARANTINE_QUEUE) == 1
    assert amqp.depth(shared.broker_url, MAIN_QUEUE) == 0
    assert len(shared.arena.executions()) == 1


def number_of(params: str) -> int:
    return int(json.loads(params)["n"])


def one_failed(shared: Plant) -> dict[str, Any]:
    """Take the one message of the failed queue, as `rabbitmqadmin get` does."""
    with amqp.channel(shared.broker_url) as plain:
        method, properties, message = plain.basic_get(FAILED_QUEUE, auto_ack=True)
        assert method is not None, "the failed queue is empty"
        assert properties is not None
        assert method.message_count == 0
    return {
        "body": message,
        "exchange": method.exchange,
        "key": method.routing_key,
        "mode": properties.delivery_mode,
    }
