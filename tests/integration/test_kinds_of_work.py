"""What a run may be besides a command: in `cronhare up`, and on a real broker and database."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
from sqlalchemy import update

from cronhare.adapters.sql.tables.tables import executions
from cronhare.domain.execution import Execution, State
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.records import ExecutionFilter, RecordsPort
from tests.faults.arena import Arena
from tests.faults.house import stop_politely
from tests.production.plant import PATIENCE, SCHEDULER, plant
from tests.services.finding import wait_until
from tests.services.mail import mail_server
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration


@contextmanager
def embedded(folder: Path, jobs: str, **settings: str) -> Iterator[Arena]:
    """Run `cronhare up`."""
    arena = Arena(folder, 0, **settings)
    (folder / "jobs.toml").write_text(jobs)
    arena.apply()
    process = arena.start()
    try:
        yield arena
        stop_politely([process])
    finally:
        process.kill()
        process.wait()
        arena.engine.dispose()


@pytest.fixture(params=["embedded", "production"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Give a way to run a system with a jobs file."""
    if request.param == "embedded":
        return lambda jobs, **settings: embedded(tmp_path, jobs, **settings)
    broker: RabbitMQ = request.getfixturevalue("rabbitmq")
    database: Mariadb = request.getfixturevalue("mariadb")

    @contextmanager
    def production(jobs: str, **settings: str) -> Iterator[Arena]:
        with plant(tmp_path, broker, database, jobs, **settings) as built:
            built.start(*SCHEDULER)
            built.start_worker(concurrency=4)
            yield built.arena
            built.stop()

    return production


def runs(records: RecordsPort) -> Mapping[str, Execution]:
    """Give the newest run of each schedule."""
    found = records.executions(ExecutionFilter(limit=100))
    return {run.schedule_name: run for run in reversed(found)}


def until(records: RecordsPort, ended: Mapping[str, State]) -> Mapping[str, Execution]:
    """Wait until runs of these schedules have ended so."""

    def are_over() -> bool:
        states = {name: run.state for name, run in runs(records).items()}
        return all(states.get(name) is state for name, state in ended.items())

    wait_until(are_over, seconds=PATIENCE, every=0.1, what=f"{ended}")
    return runs(records)


TOPICS = """
[notify.ops]
command = ["/bin/sh", "-c", "cat > part; mv part told"]

[tasks.charge]
command = ["/bin/sh", "-c", 'echo "$CRON_TOPIC $(cat "$CRON_PARAMS_FILE")" > heard']
topics = ["payments.due", "payments.overdue"]

[schedules.heard]
topic = "payments.overdue"
payload = { order = 7 }
manual = true

[schedules.unheard]
topic = "payments.lost"
manual = true

[schedules.missed]
topic = "payments.lost"
no_listener = "fail"
notify = ["ops"]
manual = true
"""


def test_events_reach_their_listener_and_none_is_lost_unheard(
    running: Callable[..., Any], tmp_path: Path
) -> None:
    with running(TOPICS) as arena:
        arena.ask_for_runs(of=["heard", "unheard", "missed"])
        until(arena.records, {"missed": State.RETRYING})
        end_all_waits = update(executions).values(expires_at=datetime(2026, 1, 1, tzinfo=UTC))
        with arena.engine.begin() as connection:
            connection.execute(end_all_waits.where(executions.c.state == State.RETRYING.value))
        wanted = {"heard": State.SUCCEEDED, "unheard": State.SUCCEEDED, "missed": State.FAILED}
        ended = until(arena.records, wanted)

        assert (tmp_path / "heard").read_text() == 'payments.overdue {"order":7}\n'
        assert {name: run.topic for name, run in ended.items() if name in wanted} == {
            "heard": "payments.overdue",
            "unheard": "payments.lost",
            "missed": "payments.lost",
        }
        wait_until(lambda: bool(arena.records.unheard(limit=9)), seconds=PATIENCE, what="the count")
        assert [(one.topic, one.count) for one in arena.records.unheard(limit=9)] == [
            ("payments.lost", 1)
        ]
        wait_until((tmp_path / "told").exists, seconds=PATIENCE, what="the failure's event")
        told = json.loads((tmp_path / "told").read_text())
        assert (told["type"], told["data"]["topic"]) == ("schedule.failed", "payments.lost")


REMINDERS = """
[notify.ann]
email = "ann@example.org"

[notify.note]
command = ["/bin/sh", "-c", "cat > note; echo $CRON_EVENT_SCHEDULE >> noted"]

[tasks.water]
remind = ["ann", "note"]
subject = "Plants"
text = "Water the plants"

[schedules.water]
task = "water"
manual = true
retry = {{ attempts = 9, backoff = {{ type = "fixed", delay = 1000 }} }}

[schedules.spoilt]
task = "water"
params = {{ subject = "two\\nlines" }}
manual = true
"""


def test_a_reminder_is_mailed_at_its_time_and_again_to_whom_it_was_not(
    running: Callable[..., Any], tmp_path: Path
) -> None:
    with mail_server() as box:
        box.refuses = "451 try again"
        with running(REMINDERS.format(), CRON_SMTP_URL=box.url) as arena:
            arena.ask_for_runs(of=["water", "spoilt"])
            until(arena.records, {"water": State.RETRYING, "spoilt": State.FAILED})
            box.refuses = None
            ended = until(arena.records, {"water": State.SUCCEEDED})

            [mail] = box.mails
            assert (mail["Subject"], mail.get_content().strip()) == (
                "Plants",
                "Water the plants",
            )
            assert box.recipients == ["ann@example.org"]
            assert (tmp_path / "noted").read_text() == "water\n"
            assert json.loads((tmp_path / "note").read_text())["type"] == "schedule.reminder"
            outputs = arena.records.output(ended["water"].id)
            assert [output.stdout.head for output in outputs] == ["note: told\n", "ann: told\n"]
            assert "ann: smtp://localhost" in outputs[0].stderr.head


PUMP = """
[tasks.pump]
id = 7
command = ["/bin/sh", "-c", 'echo $$ >> pumps; sleep 600']

[schedules.pump]
task = "pump"
stay_alive = true
"""


PUMP_TASK = TaskRef("worker", 7)


def test_what_stays_alive_has_a_worker_of_its_own_and_is_stopped_by_its_row(
    running: Callable[..., Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pumps = tmp_path / "pumps"

    def begun() -> int:
        return len(pumps.read_text().split()) if pumps.exists() else 0

    def switch(arena: Arena, *, on: bool) -> None:
        arena.schedules.switch(["pump"], on=on, now=arena.claims.now())

    with running(PUMP) as arena:
        own = None
        if "production" in request.node.name:
            own = arena.start("worker", "--jobs", "jobs.toml", "--standalone", "pump")
        try:
            wait_until(lambda: begun() == 1, seconds=PATIENCE, what="the pump")
            assert runs(arena.records)["pump"].queue == "cron_standalone.pump"

            switch(arena, on=False)
            until(arena.records, {"pump": State.CANCELLED})
            switch(arena, on=True)
            wait_until(lambda: begun() == 2, seconds=PATIENCE, what="the pump again")
            switch(arena, on=False)
            until(arena.records, {"pump": State.CANCELLED})
            if own is not None:
                stop_politely([own])
        finally:
            if own is not None:
                own.kill()
                own.wait()


def test_up_keeps_running_what_is_made_beside_its_jobs_file_with_a_task_of_it(
    tmp_path: Path,
) -> None:
    [tasks, _] = PUMP.split("[schedules.pump]")
    made = ScheduleDraft(name="made", task=PUMP_TASK, stay_alive=True)
    foreign = attrs.evolve(made, name="foreign", task=TaskRef("worker", 404))

    with embedded(tmp_path, tasks) as arena:
        for draft in (made, foreign):
            arena.schedules.create(draft, now=arena.claims.now())
        wait_until((tmp_path / "pumps").exists, seconds=PATIENCE, what="the pump")

        assert {name: run.queue for name, run in runs(arena.records).items()} == {
            "made": "cron_standalone.made"
        }
        arena.schedules.switch(["made"], on=False, now=arena.claims.now())
        until(arena.records, {"made": State.CANCELLED})
