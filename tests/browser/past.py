"""A past for the schedules of a house: runs by the hundred, as if it had stood there for weeks.

And what it has come to: alerts that hold, and a poison pill.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from sqlite3 import Connection

import msgspec

from cronhare.domain.events.alerts import raised
from cronhare.domain.events.judging import Signs, alert, judge
from cronhare.domain.events.rules import AlertPolicy, Rule

#: Every how many minutes each has run.
_EVERY = {"stock-levels": 15, "search-index": 60, "price-feed": 30, "nightly-invoices": 1_440}
_MANY = 100

_INSERT = """
INSERT INTO SchedulerExecution (scheduler_id, execution_key, executed_at, container_id, due_at,
  state, attempt, deaths, task_type, task_id, params, started_at, finished_at)
VALUES (?, ?, ?, 'shop-1-4711', ?, ?, ?, ?, 'report', 1, '{}', ?, ?)
"""
_ALERT = """
INSERT INTO Alert (rule, raised_at, held_at, data, subject, source, scheduler_id)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_DELIVERY = """
INSERT INTO EventDelivery (event_key, event, target, source, scheduler_id, schedule_name,
  occurred_at, payload, state, tries, finished_at, last_error)
VALUES (?, 'alert', ?, 'jobs.toml', 0, '', ?, '{}', ?, ?, ?, ?)
"""
_PILL = """
INSERT INTO FailedTask (execution_id, scheduler_id, schedule_name, execution_key, kind, task_type,
  task_id, queue, params, failed_at, failed_reason, attempts, retry_count, crash_count,
  first_crash_at)
SELECT id, scheduler_id, 'price-feed', execution_key, 'quarantined', 'report', 1, 'cron_scheduler',
  '{}', ?, 'crashed 3 times within 300 s: killed by SIGKILL, as by the kernel for want of memory',
  3, 2, 3, ? FROM SchedulerExecution WHERE scheduler_id = ? ORDER BY id DESC LIMIT 1
"""
_LATE = "nightly-invoices, due at 2026-03-02 01:30:00 UTC, was to have ended by 04:00, and has not"


def write_past(ledger: Connection) -> None:
    """Write it, in one transaction."""
    ids = dict(ledger.execute("SELECT name, id FROM Scheduler WHERE name IS NOT NULL"))
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    with ledger:
        made = _text(now - timedelta(days=_MANY + 1))
        ledger.execute("UPDATE Scheduler SET created_at = ?", (made,))
        for name, minutes in _EVERY.items():
            ledger.executemany(_INSERT, _runs(ids[name], minutes, now))
        write_alerts(ledger, ids["nightly-invoices"])
        ledger.execute(_PILL, (_text(now), _text(now), ids["price-feed"]))


def write_alerts(ledger: Connection, late: int) -> None:
    """Write some that hold: nobody sees them hold, so they are over in five minutes."""
    now = datetime.now(UTC)
    subject, long = "nightly-invoices", "a-queue-that-somebody-gave-a-name-which-is-rather-long"
    for one in (
        *judge(
            Signs(unresolved=104), AlertPolicy(runbook="https://wiki.example/dead-letters"), now
        ),
        alert(Rule.QUEUE, f"3 runs wait in {long}", now=now, value=3, subject=long),
        alert(
            Rule.NOT_FINISHED,
            _LATE,
            now=now,
            value=5_400,
            subject=subject,
            source="jobs.toml",
            scheduler_id=late,
        ),
    ):
        at, data = _text(now), msgspec.json.encode(one.data).decode()
        row = (one.key, at, at, data, one.subject, one.source, one.scheduler_id)
        ledger.execute(_ALERT, row)
        key = raised(one, source="jobs.toml").id
        if one.rule != Rule.QUEUE:
            ledger.execute(_DELIVERY, (key, "ops", at, "delivered", 1, at, None))
            error = "POST https://hooks.example.org/…: 503 Service Unavailable"
            ledger.execute(_DELIVERY, (key, "pager", at, "given-up", 8, at, error))


def _runs(id_: int, minutes: int, now: datetime) -> Iterator[tuple[object, ...]]:
    for place in range(_MANY, 0, -1):
        due = now - place * timedelta(minutes=minutes)
        key = f"cron-{due.year}-{due.month}-{due.day}-{due.hour}-{due.minute}"
        end = ("failed", 4, 4) if place % 11 == 0 else ("succeeded", 1, 0)
        ended = due + timedelta(seconds=20 + place % 7)
        yield (id_, key, _text(due), _text(due), *end, _text(due), _text(ended))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
