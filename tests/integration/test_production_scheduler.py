"""What a scheduler process promises: edits by hand, servers that come later, bells."""

import asyncio
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from cronhare.domain.execution import State
from tests.faults.house import stop_politely
from tests.integration.shell import Said, Shell
from tests.ports import ids_of
from tests.production.plant import PATIENCE, SCHEDULER, Plant, plant
from tests.services.finding import free_port, wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.mariadb import run
from tests.services.proxy import proxy
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

#: Seconds.
REFRESH = 1

NOBODY = "amqp://guest:guest@127.0.0.1:1/"

JOBS = '[tasks.true]\nid = 1\ncommand = ["/bin/true"]\n' + "".join(
    f'[schedules.s{n}]\ntask = "true"\nschedule = "@yearly"\n' for n in range(1, 6)
)

#: What each server's absence makes a scheduler say.
AWAY = {
    "CRON_DATABASE_URL": "The ledger cannot be used, asking again",
    "CRON_BROKER_URL": "The declaration tries again",
}


@pytest.fixture
def quiet(rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path) -> Iterator[Plant]:
    """Schedules that are due once a year, and nobody at work yet."""
    with plant(tmp_path, rabbitmq, mariadb, JOBS, CRON_REFRESH_SECONDS=str(REFRESH)) as quiet:
        yield quiet


def test_a_plain_update_is_seen_within_the_refresh_by_a_scheduler_at_work(quiet: Plant) -> None:
    arena = quiet.arena
    quiet.start(*SCHEDULER)
    wait_until(lambda: next_run(quiet) != [], seconds=PATIENCE, what="the first plans")
    id_ = ids_of(arena.schedules, ["s1"])["s1"]
    off = f"UPDATE Scheduler SET status = 0 WHERE id = {id_}"
    on = f"UPDATE Scheduler SET status = 1, schedule = '0 8 * * *' WHERE id = {id_}"

    for statement, is_planned in ((off, False), (on, True)):
        run(arena.database, statement)
        wait_until(
            lambda: bool(next_run(quiet)) == is_planned,  # noqa: B023 - called at once
            seconds=PATIENCE,
            what=f"the notice of {statement}",
        )
    quiet.stop()

    [[due]] = next_run(quiet)
    now = arena.claims.now()
    assert (due.hour, due.minute) == (8, 0)
    assert 0 < (due.replace(tzinfo=UTC) - now).total_seconds() <= 24 * 3600
    assert quiet.troubles() == []


@pytest.mark.parametrize("away", AWAY)
async def test_a_scheduler_that_starts_before_its_servers_says_so_and_works_when_they_are_there(
    quiet: Plant, away: str
) -> None:
    genuine = make_url(quiet.arena.settings[away])
    assert genuine.port is not None
    port = free_port()
    later = genuine.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
    asked = quiet.arena.ask_for_runs()

    quiet.start(*SCHEDULER, **{away: later})
    await asyncio.to_thread(wait_for_words, quiet, AWAY[away])
    async with proxy(genuine.port, listen=port) as (_, link):
        await asyncio.to_thread(wait_for_messages, quiet, len(asked))
        await asyncio.to_thread(quiet.stop)

    assert link.connections > 0
    executions = quiet.arena.executions()
    assert {one.id for one in executions} == asked
    assert {one.state for one in executions} == {State.PUBLISHED}


def test_its_command_sends_it_without_a_scheduler_who_does_where_the_broker_is_away(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    with plant(tmp_path, rabbitmq, mariadb, JOBS, CRON_MESSAGE_KEY="k" * 32) as at_work:
        scheduler = at_work.start(*SCHEDULER)
        at_work.start_worker()
        at_work.wait_until_all_work(workers=1)
        reported = ("nodes", "list", "--json")
        wait_until(lambda: ask(at_work, *reported).json(), seconds=PATIENCE, what="a report")

        at_work.processes.remove(scheduler)
        stop_politely([scheduler])
        runs = [ask(at_work, "run", "s1", "--wait", "--json") for _ in range(3)]
        at_work.start(*SCHEDULER)
        away = ask(at_work, "run", "s1", "--wait", "--json", CRON_BROKER_URL=NOBODY)

        assert [run.status for run in (*runs, away)] == [0] * 4
        assert all("A scheduler sends" not in run.err for run in runs)
        assert "A scheduler sends 1 execution" in away.err
        assert away.json()["state"] == "succeeded"
        at_work.stop()
        assert at_work.troubles() == []


def ask(at_work: Plant, *command: str, **settings: str) -> Said:
    return Shell(at_work.arena.folder)(*command, **{**at_work.arena.settings, **settings})


def next_run(quiet: Plant) -> list[tuple[Any, ...]]:
    """Read when the first schedule is due, where everything else reads it; nothing if never."""
    return quiet.query(
        "SELECT next_due_at FROM SchedulerPlan JOIN Scheduler ON id = scheduler_id "
        "WHERE name = 's1' AND next_due_at IS NOT NULL"
    )


def wait_for_words(quiet: Plant, words: str) -> None:
    wait_until(lambda: words in quiet.arena.said(), seconds=PATIENCE, every=0.1, what=words)


def wait_for_messages(quiet: Plant, many: int) -> None:
    wait_until(
        lambda: quiet.waiting() >= many, seconds=PATIENCE, every=0.2, what=f"{many} messages"
    )
