"""What a large installation's ledger has kept: a week of runs, and a year of failures."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
from bulk import Row
from full_schedules import EVERY_TEN_MINUTES, HOURLY, KEYS, SOURCE, name_of, queue_of, task_of
from samples import size

from cronhare.adapters.sql.tables.types import to_text
from cronhare.domain.execution import State
from cronhare.domain.retries.outcome import Ending, ErrorClass, TaskError
from cronhare.domain.schedules.keys import cron_key

WEEK: Final = timedelta(days=7)

#: Of so many runs one fails for good; is quarantined; was skipped; was retried.
FAILED, QUARANTINED, SKIPPED, RETRIED = 80, 1_500, 60, 25

#: The newest runs of so many schedules have not ended yet, in these states by turns.
OPEN: Final = size(4_000, 100)
OPEN_STATES: Final = (
    *[State.PUBLISHED] * 14, *[State.RETRYING] * 3, State.RUNNING, State.HELD, State.CLAIMED,
)  # fmt: skip

#: Failures of a year that are in the archive beside those of the week; most are resolved.
OLDER_FAILURES: Final = size(60_000, 100)
UNRESOLVED: Final = 12

EVENTS: Final = size(100_000, 1_000)

#: Every so many-th attempt has written something.
WRITES: Final = 2

NODES: Final = tuple(f"worker-{n:02d}.example.net-{4000 + n}-0a1b2c3d{n:08x}" for n in range(1, 21))

ERRORS: Final = tuple(
    TaskError(
        message=f"{what} for customer",
        code=code,
        error_class=kind,
        types=("ConnectionError", "OSError"),
        stack="Traceback (most recent call last):\n" + '  File "task.py", line 12, in run\n' * 6,
    ).as_json()
    for what, code, kind in (
        ("connection refused", "ECONNREFUSED", ErrorClass.TRANSIENT),
        ("the token has expired", "AUTH_INVALID", ErrorClass.PERMANENT),
        ("asked to come back later", "EBUSY", ErrorClass.RATE_LIMITED),
        ("division by zero", None, ErrorClass.UNKNOWN),
    )
)
REASONS: Final = (
    "failed 4 times, the limit is 4: connection refused",
    "permanent error AUTH_INVALID: the token has expired",
    "failed 4 times, the limit is 4: asked to come back later",
    "failed 4 times, the limit is 4: division by zero",
)

EXECUTION_COLUMNS: Final = (
    "id", "scheduler_id", "execution_key", "executed_at", "container_id", "due_at", "state",
    "attempt", "deaths", "version", "task_type", "task_id", "queue", "params", "owner",
    "lease_until", "next_attempt_at", "check_at", "published_at", "started_at", "finished_at",
    "last_error", "source", "task_name", "concurrency_key", "held_by",
)  # fmt: skip
ATTEMPT_COLUMNS: Final = (
    "execution_id", "attempt", "node", "started_at", "finished_at", "ending", "exit_code", "pid",
    "error", "peak_memory", "cpu_seconds",
)  # fmt: skip
OUTPUT_COLUMNS: Final = (
    "execution_id", "attempt", "stdout_head", "stdout_tail", "stdout_bytes", "stderr_head",
    "stderr_tail", "stderr_bytes", "stdout_lines", "stderr_lines",
)  # fmt: skip
FAILED_COLUMNS: Final = (
    "execution_id", "scheduler_id", "schedule_name", "execution_key", "kind", "task_type",
    "task_id", "queue", "params", "failed_at", "failed_reason", "error", "attempts",
    "retry_count", "resolved_at", "resolution", "source", "task_name",
)  # fmt: skip

_LINE: Final = "2026-01-05 08:00:01 customer 12345: 87 rows read, 87 rows written\n"


@attrs.frozen
class Run:
    """One execution of the week: when it was due, of which schedule, and whether it is its last."""

    due: datetime
    number: int
    is_last: bool


@attrs.define
class History:
    """The rows, in the order of their ids; *ids* are those of the schedules, by their numbers."""

    ids: list[int]
    now: datetime
    total: int

    def runs(self) -> list[Run]:
        """List the runs of the week, oldest first: as many as there are to be."""
        count, found = len(self.ids), list[Run]()
        frequent, hourly = count // EVERY_TEN_MINUTES, count // HOURLY
        rng = random.Random(12)
        minute = self.now.replace(second=0, microsecond=0)
        for number in range(count):
            if number < frequent:
                times, apart = 1_000, timedelta(minutes=10)
            elif number < frequent + hourly:
                times, apart = 168, timedelta(hours=1)
            else:
                times, apart = 7, timedelta(days=1)
            times = min(times, self.total - len(found))
            if number % 25 in (1, 2) and times == 7:  # over, or by hand: a run now and then
                times = min(times, 1)
            last = minute - timedelta(minutes=rng.randrange(0, apart // timedelta(minutes=1)))
            found += (Run(last - n * apart, number, n == 0) for n in range(times))
            if len(found) == self.total:
                break
        found.sort(key=lambda run: (run.due, run.number))
        return found

    def executions(self, runs: list[Run]) -> Iterator[Row]:
        """Give rows of SchedulerExecution."""
        first_open = len(runs) - OPEN
        for id_, run in enumerate(runs, 1):
            is_open = id_ > first_open and run.is_last
            state = OPEN_STATES[id_ % len(OPEN_STATES)] if is_open else ended_as(id_)
            yield self._execution(id_, run, state)

    def attempts(self, runs: list[Run]) -> Iterator[Row]:
        """Give rows of ExecutionAttempt."""
        for id_, run, state in self._with_states(runs):
            for number in range(1, attempts_of(id_, state) + 1):
                is_last = number == attempts_of(id_, state)
                ending = _ending(state) if is_last else Ending.FAILED
                begins = run.due + timedelta(seconds=1 + 30 * (2 ** (number - 1) - 1))
                ends = None if ending is None else to_text(begins + _duration(id_))
                yield (
                    id_, number, NODES[id_ % len(NODES)], to_text(begins), ends,
                    None if ending is None else ending.value,
                    None if ending is None else int(ending is not Ending.SUCCEEDED),
                    1_000 + id_ % 30_000,
                    ERRORS[id_ % 4] if ending is Ending.FAILED else None,
                    20_000_000 + id_ % 9_999_999, 0.1 + id_ % 100 / 100,
                )  # fmt: skip

    def outputs(self, runs: list[Run]) -> Iterator[Row]:
        """Give rows of AttemptOutput."""
        for id_, _, state in self._with_states(runs):
            attempt = attempts_of(id_, state)
            if attempt and id_ % WRITES == 0:
                lines = 1 + id_ % 5
                text = _LINE * lines
                yield id_, attempt, text, "", len(text), "", "", 0, lines, 0

    def failures(self, runs: list[Run]) -> Iterator[Row]:
        """Give rows of FailedTask: those of the year, then those of the week."""
        for n in range(OLDER_FAILURES):
            number = n * 7_919 % len(self.ids)
            due = self.now - WEEK - timedelta(minutes=8 * (OLDER_FAILURES - n))
            yield self._failure(0, Run(due, number, is_last=False), State.FAILED, n)
        for id_, run, state in self._with_states(runs):
            if state in {State.FAILED, State.QUARANTINED}:
                yield self._failure(id_, run, state, id_)

    def _with_states(self, runs: list[Run]) -> Iterator[tuple[int, Run, State]]:
        first_open = len(runs) - OPEN
        for id_, run in enumerate(runs, 1):
            is_open = id_ > first_open and run.is_last
            yield id_, run, OPEN_STATES[id_ % len(OPEN_STATES)] if is_open else ended_as(id_)

    def _execution(self, id_: int, run: Run, state: State) -> Row:
        ref, task_name = task_of(run.number)
        due, number = to_text(run.due), run.number
        attempt = max(attempts_of(id_, state), 1)
        begins = run.due + timedelta(seconds=1)
        has_ended = state in _ENDED
        waits = state in {State.RETRYING, State.CLAIMED, State.PUBLISHED}
        check = to_text(self.now + timedelta(minutes=1)) if waits else None
        return (
            id_, self.ids[number], cron_key(run.due), due, NODES[0], due, state.value,
            attempt + (state is State.RETRYING), attempt - 1, 4, ref.type, ref.id,
            queue_of(number), f'{{"customer":{number},"format":"pdf"}}',
            NODES[id_ % len(NODES)] if state is State.RUNNING else None,
            to_text(self.now + timedelta(minutes=30)) if state is State.RUNNING else None,
            to_text(self.now + timedelta(minutes=1)) if state is State.RETRYING else None, check,
            None if state in _NEVER_SENT else due,
            to_text(begins) if attempts_of(id_, state) else None,
            to_text(begins + _duration(id_)) if has_ended else None,
            _last_error(id_, state), SOURCE, task_name,
            f"tenant-{number % KEYS}" if number % 11 == 0 else None,
            f"key tenant-{number % KEYS}" if state is State.HELD else None,
        )  # fmt: skip

    def _failure(self, id_: int, run: Run, state: State, n: int) -> Row:
        ref, task_name = task_of(run.number)
        is_open = n % UNRESOLVED == 0
        failed_at = run.due + timedelta(minutes=4)
        resolution = None if is_open else ("replayed", "discarded")[n % 3 == 0]
        return (
            id_, self.ids[run.number], name_of(run.number), cron_key(run.due), state.value,
            ref.type, ref.id, queue_of(run.number), f'{{"customer":{run.number}}}',
            to_text(failed_at), REASONS[n % len(REASONS)], ERRORS[n % len(ERRORS)], 4, 3,
            None if is_open else to_text(failed_at + timedelta(hours=2)), resolution, SOURCE,
            task_name,
        )  # fmt: skip


_ENDED: Final = {
    State.SUCCEEDED, State.FAILED, State.QUARANTINED, State.SKIPPED, State.CANCELLED,
}  # fmt: skip
_NEVER_SENT: Final = {State.SKIPPED, State.CLAIMED, State.HELD}


def ended_as(id_: int) -> State:
    """Tell how a run ended."""
    if id_ % SKIPPED == 7:
        return State.SKIPPED
    if id_ % FAILED == 11:
        return State.FAILED
    if id_ % QUARANTINED == 13:
        return State.QUARANTINED
    return State.CANCELLED if id_ % 2_000 == 17 else State.SUCCEEDED


def attempts_of(id_: int, state: State) -> int:
    """Tell how many attempts a run has had."""
    if state in {State.SKIPPED, State.CLAIMED, State.HELD, State.PUBLISHED, State.CANCELLED}:
        return 0
    if state in {State.FAILED, State.QUARANTINED}:
        return 4
    return 2 if id_ % RETRIED == 3 and state is not State.RETRYING else 1


def _ending(state: State) -> Ending | None:
    if state is State.RUNNING:
        return None
    return Ending.SUCCEEDED if state is State.SUCCEEDED else Ending.FAILED


def _duration(id_: int) -> timedelta:
    """From a moment to ten minutes, most of them short."""
    return timedelta(seconds=(id_ * 37 % 100) ** 3 / 1_700 + 0.2)


def _last_error(id_: int, state: State) -> str | None:
    if state is State.SKIPPED:
        return ("in calendar holidays: Day 1 off", "missed: older than the misfire window")[id_ % 2]
    return REASONS[id_ % len(REASONS)] if state in {State.FAILED, State.QUARANTINED} else None


def others(now: datetime, ids: list[int]) -> dict[str, tuple[tuple[str, ...], list[Any]]]:
    """Give the rows of the small tables, and of the outbox, by the names of their tables."""
    seen, began = to_text(now), to_text(now - timedelta(days=3))
    later = to_text(now + timedelta(days=300))
    nodes = [
        (name, "scheduler" if n < 2 else "worker", name.partition("-")[0], "0.1.0", began,
         later if n < 15 else seen, "cron_scheduler\ncron_scheduler.mail", 16, 3, 2)
        for n, name in enumerate(NODES)
    ]  # fmt: skip
    events = [
        (f"failed:{n}", "failed", f"hook-{n % 8}", SOURCE, ids[n * 31 % len(ids)],
         name_of(n * 31 % len(ids)), n, to_text(now - timedelta(seconds=10 * (EVENTS - n))),
         '{"id":"x","type":"scheduled_job.failed","data":{}}',
         "delivered" if n % 50 else "given-up", 1, None,
         to_text(now - timedelta(seconds=10 * (EVENTS - n) - 2)))
        for n in range(EVENTS)
    ]  # fmt: skip
    topics = [(f"orders.{n}", n * 3, seen) for n in range(40)]
    breakers = [(f"report {100 + n}", f"task-{n}", 60_000, "[]", 0, 0, 0, seen) for n in range(60)]
    budgets = [(f"cron_scheduler.q{n}", 100, 60_000, "[]", seen) for n in range(40)]
    replays = [
        ('{"which":{},"attempts":4}', seen, "done", 1_000, 1_000, seen, seen, 200)
        for _ in range(500)
    ]
    return {
        "SchedulerNode": (
            ("name", "role", "host", "version", "started_at", "seen_at", "queues", "concurrency",
             "running", "clock_offset_ms"), nodes,
        ),
        "EventDelivery": (
            ("event_key", "event", "target", "source", "scheduler_id", "schedule_name",
             "execution_id", "occurred_at", "payload", "state", "tries", "next_try_at",
             "finished_at"), events,
        ),
        "TopicTally": (("topic", "no_listener", "last_at"), topics),
        "CircuitBreaker": (
            ("task", "task_name", "window_ms", "failures", "next_failures", "failed", "succeeded",
             "last_at"), breakers,
        ),
        "RetryBudget": (("queue", "most", "window_ms", "granted", "last_at"), budgets),
        "Replay": (
            ("asked", "created_at", "state", "up_to", "collected_to", "next_at", "ended_at",
             "succeeded"), replays,
        ),
    }  # fmt: skip
