"""What lists and pages ask of a full ledger, straight to the use cases: medians and worst times."""

import statistics
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

import attrs
from a_full_ledger import SCHEDULES
from full_schedules import name_of
from samples import size

from cronhare.domain.events.outbox import OutboxState
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, FailureFilter
from cronhare.entrypoints.container import Container
from cronhare.ports.records import ExecutionFilter
from cronhare.ports.schedules import ScheduleFilter
from cronhare.ports.statistics import DAY_AND_TYPE, By

PAGE: Final = 50
RUNS: Final = size(5, 0)

#: After so many seconds a question is asked no more: its median is of fewer runs.
ENOUGH: Final = 4.0

#: Runs every ten minutes; daily; has no run at all.
BUSY, DAILY, IDLE = name_of(7), name_of(size(30_000, 100)), name_of(SCHEDULES - 1)

Question = Callable[[], Any]


def questions(container: Container) -> Mapping[str, Question]:
    """Name each question, and say how it is asked."""
    q, e, now = container.queries(), container.explanations(), container.claims().now()
    hour, day = now - timedelta(hours=1), now - timedelta(days=1)
    week, missed = now - timedelta(days=7), now - timedelta(days=6, minutes=3)
    store, stats, replays = container.statistics(), container.metrics(), container.replays()
    found = q.executions(_which({}, 1))[0]
    failure = q.failures(UNRESOLVED, limit=1)[0]
    old = q.executions(_which({"until": now - timedelta(days=6)}, 1))[0]
    filters: Mapping[str, Mapping[str, Any]] = {
        "all": {},
        "of a busy schedule": {"schedule": BUSY},
        "of a daily schedule": {"schedule": DAILY},
        "of a schedule without any": {"schedule": IDLE},
        "of a task": {"task": "invoice-016"},
        "of a number": {"task": "worker 116"},
        "of a number that succeeded": {"task": "worker 116", "states": [State.SUCCEEDED]},
        "of a key": {"concurrency_key": "tenant-11"},
        "of the last hour": {"since": hour},
        "before six days ago": {"until": now - timedelta(days=6)},
        "of an hour three days ago": {
            "since": now - timedelta(days=3, hours=1), "until": now - timedelta(days=3),
        },
        **{f"that are {state}": {"states": [state]} for state in State},
        "that are failed, of a daily schedule": {"states": [State.FAILED], "schedule": DAILY},
        "that are failed, of a task": {"states": [State.FAILED], "task": "invoice-016"},
        "that have not ended": {
            "states": [State.RUNNING, State.CLAIMED, State.PUBLISHED, State.RETRYING, State.HELD],
        },
    }  # fmt: skip
    failures = {
        "unresolved": UNRESOLVED,
        "all": EVERY_FAILURE,
        "of a schedule": FailureFilter(schedule=DAILY),
        "of a task": FailureFilter(task="invoice-016"),
        "of a reason": FailureFilter(reason="AUTH_INVALID"),
        "of a reason that none has": FailureFilter(reason="no such reason", unresolved=False),
        "of a code": FailureFilter(code="AUTH_INVALID"),
        "of a day": FailureFilter(since=day),
        "of a day a month ago": FailureFilter(
            since=now - timedelta(days=31), until=now - timedelta(days=30), unresolved=False
        ),
    }
    return {
        "schedules": lambda: container.schedule_views().page(ScheduleFilter(), limit=PAGE),
        "schedule": lambda: q.schedule(BUSY),
        "schedule, unknown": lambda: _refused(lambda: q.schedule("no-such-schedule")),
        **{
            f"executions {what}": partial(q.executions, _which(asked))
            for what, asked in filters.items()
        },
        "executions of a task, unknown": lambda: _refused(
            lambda: q.executions(_which({"task": "no-such-task"}))
        ),
        "failures of a queue, unknown": lambda: _refused(
            lambda: q.failures(FailureFilter(queue="no-such-queue"), limit=PAGE)
        ),
        "execution": lambda: q.execution(found.id),
        "execution, old": lambda: q.execution(old.id),
        "output": lambda: q.output(old.id),
        "explain an execution": lambda: e.of_execution(old.id),
        "explain an instant": lambda: e.of_instant(DAILY, None),
        "explain an instant of a busy one": lambda: e.of_instant(BUSY, None),
        "explain an instant without a row": lambda: e.of_instant(BUSY, missed),
        "next runs": lambda: q.upcoming(BUSY, count=20),
        **{
            f"failures {what}": partial(q.failures, which, limit=PAGE)
            for what, which in failures.items()
        },
        "failure": lambda: q.failure(failure.id),
        **{f"replay: count {what}": partial(replays.count, which)
           for what, which in failures.items() if "none has" not in what},
        "quarantine": lambda: q.quarantine(UNRESOLVED, limit=PAGE),
        "queues": q.queues,
        "nodes": q.nodes,
        "replays": lambda: replays.list(limit=PAGE),
        "events": lambda: container.alert_desk().events(states=(), schedule=None, limit=PAGE),
        "events given up": lambda: container.alert_desk().events(
            states=[OutboxState.GIVEN_UP], schedule=None, limit=PAGE
        ),
        "events of a schedule": lambda: container.alert_desk().events(
            states=(), schedule=DAILY, limit=PAGE
        ),
        "budgets": lambda: container.limit_desk().budgets(),
        "breakers": lambda: container.limit_desk().breakers(),
        "statistics of failures, of a week": lambda: store.failures(
            FailureFilter(since=week, unresolved=False), by=DAY_AND_TYPE, limit=100
        ),
        "statistics of failures, all, by reason": lambda: store.failures(
            EVERY_FAILURE, by=[By.REASON], limit=100
        ),
        "statistics of failures, all, by class": lambda: store.failures(
            EVERY_FAILURE, by=[By.CLASS], limit=100
        ),
        "statistics of executions, of an hour": lambda: store.executions(
            since=hour, until=None, by=DAY_AND_TYPE, limit=100
        ),
        "statistics of executions, of a day": lambda: store.executions(
            since=day, until=None, by=DAY_AND_TYPE, limit=100
        ),
        "statistics of executions, of a week": lambda: store.executions(
            since=week, until=None, by=DAY_AND_TYPE, limit=100
        ),
        "statistics of executions, of a day by schedule": lambda: store.executions(
            since=day, until=None, by=[By.SCHEDULE], limit=100
        ),
        "metrics": stats.measure,
        "doctor": lambda: container.ledger_inspection().inspect(),
    }  # fmt: skip


@attrs.frozen
class Measured:
    """How long a question took, in milliseconds: the median and the worst of so many *runs*.

    *cpu* is the median of this process's CPU time, which tells more on a machine in use.
    """

    what: str
    median: float
    worst: float
    cpu: float
    runs: int


def measure(what: str, ask: Question) -> Measured:
    """Ask until the median is known; a first time warms up, and is not counted if there is more."""
    times = [_milliseconds(ask)]
    while len(times) <= RUNS and sum(wall for wall, _ in times) < ENOUGH * 1_000:
        times.append(_milliseconds(ask))
    wall, cpu = zip(*(times[1:] or times), strict=True)
    return Measured(what, statistics.median(wall), max(wall), statistics.median(cpu), len(wall))


def _milliseconds(ask: Question) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    ask()
    return (time.perf_counter() - began) * 1_000, (time.process_time() - cpu) * 1_000


def _which(asked: Mapping[str, Any], limit: int = PAGE) -> ExecutionFilter:
    return ExecutionFilter(**asked, limit=limit)


def _refused(ask: Question) -> None:
    try:
        ask()
    except LookupError:
        return
