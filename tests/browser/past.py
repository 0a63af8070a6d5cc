"""A past for the schedules of a house: runs by the hundred, as if it had stood there for weeks.

And what it has come to: alerts that hold, and a poison pill.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from sqlite3 import Connection

import msgspec

from cronhare.domain.events.alerts import raised
from cronhare.domain.events.judging import Signs, alert, judge
from cronhare.domain.events.rules import AlertPolicy, Rule

#: How often each has run, in how many minutes, and how often it fails, in percent.
_EVERY = {
    "stock-levels": (15, 1),
    "search-index": (60, 6),
    "price-feed": (30, 5),
    "parcel-states": (20, 9),
    "backup": (60, 0),
    "nightly-invoices": (1_440, 8),
}
_SPAN = timedelta(days=8)
_MOST = 400

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
    """Write it, in one transaction; the same in each run but for the time."""
    ids = dict(ledger.execute("SELECT name, id FROM Scheduler WHERE name IS NOT NULL"))
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    with ledger:
        made = _text(now - 3 * _SPAN)
        ledger.execute("UPDATE Scheduler SET created_at = ?", (made,))
        for name, (minutes, bad) in _EVERY.items():
            ledger.executemany(_INSERT, _runs(ids[name], name, minutes, bad, now))
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


def _runs(
    id_: int, name: str, minutes: int, bad: int, now: datetime
) -> Iterator[tuple[object, ...]]:
    chance = Random(name)
    usual = chance.uniform(2, 90)
    span = _SPAN if minutes < 1_440 else 10 * _SPAN
    many = min(_MOST, span // timedelta(minutes=minutes))
    for place in range(many, 0, -1):
        due = now - place * timedelta(minutes=minutes)
        has_failed = chance.uniform(0, 100) < bad
        attempt = 4 if has_failed else 1 + (chance.uniform(0, 100) < bad)
        began = due + timedelta(seconds=chance.uniform(0.05, 1.5))
        ended = began + timedelta(seconds=usual * chance.lognormvariate(0, 0.35))
        yield (
            id_,
            f"cron-{due.year}-{due.month}-{due.day}-{due.hour}-{due.minute}",
            _text(due),
            _text(due),
            "failed" if has_failed else "succeeded",
            attempt,
            attempt - 1 + has_failed,
            _text(began),
            _text(ended),
        )


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
