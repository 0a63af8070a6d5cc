"""Replicas in a busy minute, as by `python -m tests.production`; and waits through real lanes."""

from collections import defaultdict
from pathlib import Path

import pytest

from cronhare.domain.execution import State
from cronhare.ports.records import ExecutionFilter
from tests.production import replicas
from tests.production.plant import PATIENCE, SCHEDULER, Plant, plant
from tests.services.databases import Server
from tests.services.finding import wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

#: Three of a scheduler's batches. The long form has ten, so that each of three gets one for sure.
SCHEDULES = 3_000

#: Seconds. How late a retry is is no promise: this is for what is stuck.
STUCK = 5

#: Notes the time when it begins and when it ends, and always fails.
JOBS = """
[tasks.notes]
id = 1
env = { NOTES = "%s" }
command = ["/bin/sh", "-c", '''
date "+$CRON_EXECUTION_ID %%s.%%N" >> "$NOTES"
date "+$CRON_EXECUTION_ID %%s.%%N" >> "$NOTES"
exit 1
''']
retry = { attempts = 4, backoff = { type = "exponential", delay = 1000, multiplier = 2.0 } }
""" + "".join(f'[schedules.s{n}]\ntask = "notes"\nschedule = "@yearly"\n' for n in range(1, 4))


@pytest.fixture(params=["mariadb", "postgresql_server"])
def server(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.mark.long
def test_replicas_claim_and_run_a_busy_minute_exactly_once(
    rabbitmq: RabbitMQ, server: Server, tmp_path: Path
) -> None:
    with plant(tmp_path, rabbitmq, server, replicas.JOBS) as at_work:
        busy = replicas.measure(at_work, schedules=SCHEDULES)
        troubles = at_work.troubles()

    replicas.tell(busy)
    assert (busy.executions, busy.unlike, busy.locks) == (SCHEDULES, 0, 0)
    assert troubles == []
    assert len(busy.claimed_by) > 1
    assert len(busy.run_by) == replicas.WORKERS
    assert 0 <= busy.first_claimed < 60  # never early; later than that is stuck


def test_the_waits_of_three_retries_grow_and_are_never_early(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    with plant(tmp_path, rabbitmq, mariadb, JOBS % (tmp_path / "notes")) as at_work:
        at_work.start(*SCHEDULER)
        at_work.start_worker(concurrency=16)
        at_work.wait_until_all_work(workers=1)
        asked = at_work.arena.ask_for_runs(3)
        wait_until(
            lambda: has_failed(at_work, len(asked)), seconds=PATIENCE, every=0.5, what="their ends"
        )
        at_work.stop()

    notes = defaultdict[str, list[float]](list)
    for line in (tmp_path / "notes").read_text().splitlines():
        id_, seconds = line.split()
        notes[id_].append(float(seconds))
    assert len(notes) == len(asked)
    for moments in notes.values():
        begins, ends = moments[0::2], moments[1::2]
        waited = [begin - end for end, begin in zip(ends, begins[1:], strict=False)]
        late = [each - promised for each, promised in zip(waited, (1, 2, 4), strict=True)]
        assert 0 <= min(late) <= max(late) < STUCK, late


def has_failed(at_work: Plant, many: int) -> bool:
    failed = ExecutionFilter(states={State.FAILED}, limit=1_000)
    return len(at_work.arena.records.executions(failed)) == many
