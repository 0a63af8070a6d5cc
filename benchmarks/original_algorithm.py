"""The original algorithm in Python: load all, match each, insert and commit each, publish each.

It works on the same tables, and is spared what nobody asked of it: it opens no connection twice,
keeps no times of its own, and sees each zone's wall time computed once a minute.
"""

import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self
from zoneinfo import ZoneInfo

import msgspec
from croniter import croniter

from cronhare.domain.messages import TaskMessage
from cronhare.domain.schedules.keys import cron_key
from cronhare.domain.topology import MAIN_QUEUE, ToQueue
from cronhare.ports.broker import BrokerPort, Envelope, Message

if TYPE_CHECKING:
    from tests.ports import ReadableBroker


class Row(NamedTuple):
    """An active scheduler."""

    id: int
    schedule: str
    timezone: str
    report_id: int
    params: str


class OriginalScheduler:
    """`cron-scheduler`: once a minute, everything that is active is looked at."""

    def __init__(self, path: Path, broker: BrokerPort) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")  # as durable as ours
        self._broker = broker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._database.close()

    def load(self) -> list[Row]:
        """Read all active schedulers; a one-time one is not among ours."""
        found = self._database.execute(
            'SELECT id, schedule, timezone, report_id, params FROM "Scheduler" '
            "WHERE status = 1 AND schedule IS NOT NULL AND report_id IS NOT NULL"
        )
        return [Row(*values) for values in found]

    def matching(self, rows: Sequence[Row], now: datetime) -> list[Row]:
        """See `matching`."""
        return matching(rows, now)

    def dispatch(self, rows: Sequence[Row], now: datetime) -> int:
        """Claim each, and publish what was claimed; tells how many."""
        return sum(self._claim(row, now) and self._publish(row) for row in rows)

    def _claim(self, row: Row, now: datetime) -> bool:
        try:
            with self._database:
                self._database.execute(
                    'INSERT INTO "SchedulerExecution" '
                    "(scheduler_id, execution_key, executed_at, container_id) VALUES (?, ?, ?, ?)",
                    (row.id, cron_key(now), f"{now:%F %T.%f}", "original-1"),
                )
        except sqlite3.IntegrityError:
            return False
        return True

    def _publish(self, row: Row) -> bool:
        message = TaskMessage(
            type="report", id=row.report_id, scheduler_id=row.id, params_scheduler=row.params
        )
        body = msgspec.json.encode(message)
        self._broker.publish([Envelope(Message(body=body), ToQueue(MAIN_QUEUE))])
        return True


def matching(rows: Sequence[Row], now: datetime) -> list[Row]:
    """Ask of each row whether its expression matches this minute."""
    walls = {name: now.astimezone(ZoneInfo(name)) for name in {row.timezone for row in rows}}
    return [row for row in rows if croniter.match(row.schedule, walls[row.timezone])]


def work_off(broker: "ReadableBroker", execute: Callable[[TaskMessage], object]) -> int:
    """`cron-worker`: take one message, run it, ack it; until there are none. Tells how many."""
    done = 0
    while (delivery := broker.receive(MAIN_QUEUE)) is not None:
        execute(msgspec.json.decode(delivery.message.body, type=TaskMessage))
        broker.ack(delivery)
        done += 1
    return done


def start_child(message: TaskMessage) -> None:
    """Run a task in a child, with pipes to all of its streams."""
    params = message.params_scheduler.encode()
    subprocess.run(["/bin/true"], input=params, capture_output=True, check=True)
