"""The original algorithm on MariaDB and RabbitMQ: row by row, each message confirmed by itself."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime

import msgspec
import pika
import pymysql
from original_algorithm import Row, matching
from pika.adapters.blocking_connection import BlockingChannel
from sqlalchemy import make_url

from cronhare.domain.messages import TaskMessage
from cronhare.domain.schedules.keys import cron_key
from cronhare.domain.topology import MAIN_QUEUE
from tests.services import mariadb

_PROPERTIES = pika.BasicProperties(delivery_mode=2)


class OriginalOnServers:
    """`cron-scheduler`, with one connection to each server for its whole life."""

    def __init__(self, database: pymysql.Connection, channel: BlockingChannel) -> None:
        self._database = database
        self._channel = channel

    def load(self) -> list[Row]:
        """Read all active schedulers; a one-time one is not among ours."""
        with self._database.cursor() as cursor:
            cursor.execute(
                "SELECT id, schedule, timezone, report_id, params FROM Scheduler "
                "WHERE status = 1 AND schedule IS NOT NULL AND report_id IS NOT NULL"
            )
            return [Row(*values) for values in cursor.fetchall()]

    def matching(self, rows: Sequence[Row], now: datetime) -> list[Row]:
        """Ask of each row whether its expression matches this minute."""
        return matching(rows, now)

    def dispatch(self, rows: Sequence[Row], now: datetime) -> int:
        """Claim each, and publish what was claimed; tells how many."""
        done = 0
        for row in rows:
            if self._claim(row, now):
                self._publish(row)
                done += 1
        return done

    def _claim(self, row: Row, now: datetime) -> bool:
        try:
            with self._database.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO SchedulerExecution "
                    "(scheduler_id, execution_key, executed_at, container_id) "
                    "VALUES (%s, %s, %s, %s)",
                    (row.id, cron_key(now), f"{now:%F %T.%f}", "original-1"),
                )
        except pymysql.IntegrityError:
            return False
        return True

    def _publish(self, row: Row) -> None:
        message = TaskMessage(
            type="report", id=row.report_id, scheduler_id=row.id, params_scheduler=row.params
        )
        body = msgspec.json.encode(message)
        self._channel.basic_publish("", MAIN_QUEUE, body, _PROPERTIES, mandatory=True)


@contextmanager
def original_on_servers(url: str, broker_url: str) -> Iterator[OriginalOnServers]:
    """Connect to both servers; the queue is there."""
    with (
        closing(mariadb.connect(make_url(url))) as database,
        closing(pika.BlockingConnection(pika.URLParameters(broker_url))) as connection,
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        yield OriginalOnServers(database, channel)
