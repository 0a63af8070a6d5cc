"""Several processes on one file, and one that is killed. They run this file as a script."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from cronhare.adapters.sql.claims.store import SqlClaimStore
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.adapters.sql.records.store import SqlRecords
from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.planning import Plan, Planned, plan
from cronhare.domain.schedules.task import TaskRef
from tests.frozen_clock import FrozenClock

pytestmark = pytest.mark.integration

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
DUE = NOON + timedelta(minutes=1)
SCHEDULES = 400
NODES = ("ant", "bee", "cat", "dog")
PATIENCE = 60.0

ROOT = Path(__file__).parents[2]
MODULE = "tests.integration.test_sql_processes"


@attrs.frozen
class Stage:
    """A folder by whose files processes tell each other how far they are."""

    folder: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}"

    def claims(self) -> SqlClaimStore:
        return SqlClaimStore(open_engine(self.url), FrozenClock(DUE))

    def records(self) -> SqlRecords:
        return SqlRecords(open_engine(self.url), FrozenClock(DUE))

    def schedules(self) -> SqlScheduleStore:
        return SqlScheduleStore(open_engine(self.url), FrozenClock(DUE))

    def tell(self, sign: str) -> None:
        (self.folder / sign).touch()

    def wait_for(self, *signs: str) -> None:
        wait_until(lambda: all((self.folder / sign).exists() for sign in signs))


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.002)


def planner(planned: Planned) -> Plan:
    return plan(planned, DUE)


def claim_with_the_others(stage: Stage, node: str) -> Iterator[str]:
    """Upgrade, plan and claim, each at the same moment as the others."""
    stage.tell(f"{node}-is-there")
    stage.wait_for("upgrade")
    upgrade(open_engine(stage.url), NOON)
    stage.tell(f"{node}-upgraded")
    stage.wait_for("claim")
    claims = stage.claims()
    while claims.plan_edited(now=DUE, since=None, limit=17, node=node, planner=planner).looked:
        pass
    while (batch := claims.claim_due(now=DUE, limit=7, node=node, planner=planner)).looked:
        claims.mark_published(batch.claimed, now=DUE)
        yield from (f"{one.schedule_name} {one.key}" for one in batch.claimed)


def claim_for_ever(stage: Stage, node: str) -> Iterator[str]:
    """Claim manual runs one by one."""
    records = stage.records()
    number = 0
    while True:
        number += 1
        yield records.run_now(1, key=f"{number}", params=None, now=DUE, node=node).key


def start(
    work: Callable[[Stage, str], Iterator[str]], stage: Stage, node: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", MODULE, work.__name__, str(stage.folder), node]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_four_processes_share_a_new_file_and_claim_each_key_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    processes = [start(claim_with_the_others, stage, node) for node in NODES]
    stage.wait_for(*(f"{node}-is-there" for node in NODES))
    stage.tell("upgrade")
    stage.wait_for(*(f"{node}-upgraded" for node in NODES))
    drafts = [
        ScheduleDraft(name=f"job-{n}", task=TaskRef("report", n + 1), schedule="* * * * *")
        for n in range(SCHEDULES)
    ]
    stage.schedules().save(drafts, source=None, now=NOON)

    stage.tell("claim")
    said = [process.communicate(timeout=PATIENCE)[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    keys = [line for text in said for line in text.splitlines()]
    assert sorted(keys) == sorted(f"job-{n} cron-2026-3-2-12-1" for n in range(SCHEDULES))


def test_what_was_committed_outlives_a_kill(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    upgrade(open_engine(stage.url), NOON)
    process = start(claim_for_ever, stage, "ant")
    assert process.stdout is not None
    committed = {process.stdout.readline().strip() for _ in range(50)}

    process.kill()
    committed |= set(process.communicate(timeout=PATIENCE)[0].split())

    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        found = {
            key for (key,) in connection.execute("SELECT execution_key FROM SchedulerExecution")
        }
        [verdict] = connection.execute("PRAGMA integrity_check").fetchone()
    assert len(committed) >= 50
    assert committed <= found
    assert verdict == "ok"


if __name__ == "__main__":
    work, folder, node = sys.argv[1:]
    for done in globals()[work](Stage(Path(folder)), node):
        # One write per line: nothing may stay in a buffer when the process is killed.
        os.write(1, f"{done}\n".encode())
