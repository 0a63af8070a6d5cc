"""A scheduler raises alerts though no worker is left to do so."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from cronhare.domain.events.alerts import Alert
from cronhare.domain.events.outbox import EXPIRES_AFTER, OutboxRow, OutboxState
from cronhare.domain.events.targets import EventKind, Subscriptions
from cronhare.entrypoints.processes.scheduler import alert_loop
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer
from cronhare.ports.events import AlertFilter
from tests.integration.test_alerts_of_two_processes import FAILED
from tests.services.finding import wait_until
from tests.trial_event import trial
from tests.unit.application.test_events import target

pytestmark = pytest.mark.integration


def raised(container: WorkingContainer) -> Sequence[Alert]:
    return container.alerts().page(AlertFilter(), after=None, limit=None)[0]


def test_a_scheduler_judges_without_a_jobs_file_or_a_worker(
    tmp_path: Path, on_sqlite: Settings
) -> None:
    container = WorkingContainer(settings=on_sqlite)
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as ledger, ledger:
        ledger.executemany(FAILED, [(n, n, 2, f"manual-{n}") for n in range(1, 7)])

    loop = alert_loop(container)
    loop.start()
    wait_until(lambda: bool(raised(container)), seconds=30, what="the alert")
    asyncio.run(loop.stop())

    assert [each.rule for each in raised(container)] == ["failed"]


def test_who_stands_in_gives_up_what_no_worker_was_there_to_tell(on_sqlite: Settings) -> None:
    container = WorkingContainer(settings=on_sqlite)
    own = target("own", EventKind.ALERT)
    container.subscribers().current = Subscriptions(source="shop", targets={"own": own})
    long_ago = container.claims().now() - EXPIRES_AFTER - timedelta(minutes=1)
    event = trial("own", now=long_ago, id_="0")
    container.events().add([OutboxRow.of(event, "own", source="shop", now=long_ago)], now=long_ago)

    def is_given_up() -> bool:
        [row] = container.events().rows(limit=9)
        return row.state == OutboxState.EXPIRED

    loop = alert_loop(container, stands_in=True)
    loop.start()
    wait_until(is_given_up, seconds=30, what="the end of what is old")
    asyncio.run(loop.stop())
