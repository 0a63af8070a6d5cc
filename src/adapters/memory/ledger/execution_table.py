"""The in-memory ledger's executions, with their attempts and what these wrote."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import count
from operator import attrgetter

import msgspec

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle.transitions import can_transition, changes
from cronhare.domain.schedules.circumstances import NewestSkip
from cronhare.domain.schedules.planning import Unfinished
from cronhare.ports.records import Attempt, Output


class ExecutionTable:
    """Executions by id, by key and by state."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._rows: dict[int, Execution] = {}
        self._id_of: dict[tuple[int, str], int] = {}
        self._in_state: dict[State, set[int]] = {state: set() for state in State}
        self._unfinished_of: defaultdict[int, set[int]] = defaultdict(set)
        self._attempts: dict[int, dict[int, Attempt]] = {}
        self._outputs: dict[int, dict[int, Output]] = {}

    def get(self, execution_id: int) -> Execution | None:
        """Find an execution by its id."""
        return self._rows.get(execution_id)

    def with_key(self, scheduler_id: int, key: str) -> Execution | None:
        """Find an execution by its key."""
        return self._rows.get(self._id_of.get((scheduler_id, key), 0))

    def newest_first(self) -> Iterator[Execution]:
        """Yield all executions, newest first."""
        return reversed(self._rows.values())

    def in_states(self, states: Collection[State]) -> Iterator[Execution]:
        """Yield the executions in one of these states, in no order."""
        for state in states:
            for id_ in self._in_state[state]:
                yield self._rows[id_]

    def of_schedule_in(self, scheduler_id: int, states: Collection[State]) -> list[Execution]:
        """List the executions of a schedule in some of the unfinished states, oldest first."""
        rows = (self._rows[id_] for id_ in sorted(self._unfinished_of[scheduler_id]))
        return [row for row in rows if row.state in states]

    def unfinished_of(self, scheduler_id: int) -> Unfinished | None:
        """Tell of the unfinished executions of a schedule."""
        ids = self._unfinished_of[scheduler_id]
        waiting = {id_ for id_ in ids if self._rows[id_].state is State.HELD}
        if not ids:
            return None
        active = min(ids - waiting, default=None)
        return Unfinished(active=active, waiting=min(waiting, default=None), count=len(waiting))

    def insert(self, claim: Execution) -> Execution | None:
        """Insert a claim and give it its id; None if its key is taken, which is the judge."""
        key = (claim.scheduler_id, claim.key)
        if key in self._id_of:
            return None
        execution = msgspec.structs.replace(claim, id=next(self._ids))
        self._id_of[key] = execution.id
        self._write(execution)
        return execution

    def write(self, before: Execution, after: Execution) -> Execution:
        """Write what a change of an execution changes, and nothing else of its row."""
        row = self._rows[before.id]
        if row.state is not after.state and not can_transition(row.state, after.state):
            raise ValueError(f"{row.state} does not lead to {after.state}")
        self._in_state[row.state].discard(row.id)
        changed = msgspec.structs.replace(row, **changes(before, after))
        self._write(changed)
        return changed

    def newest_skip(self, scheduler_id: int) -> NewestSkip | None:
        """Find a schedule's latest row of instants that did not run."""
        skipped = (
            row for row in self.in_states({State.SKIPPED}) if row.scheduler_id == scheduler_id
        )
        latest = max(skipped, key=attrgetter("due_at"), default=None)
        if latest is None or latest.last_due_at is None or latest.last_error is None:
            return None
        return NewestSkip(key=latest.key, last=latest.last_due_at, reason=latest.last_error)

    def prolong(
        self, scheduler_id: int, key: str, *, last: datetime, more: int, now: datetime
    ) -> None:
        """Let a row of instants that did not run cover others that follow it."""
        row = self._rows[self._id_of[scheduler_id, key]]
        self._rows[row.id] = msgspec.structs.replace(
            row, last_due_at=last, missed=row.missed + more, finished_at=now
        )

    def delete(self, execution: Execution) -> None:
        """Forget an execution that has ended, its attempts, and what they wrote."""
        del self._rows[execution.id], self._id_of[execution.scheduler_id, execution.key]
        self._in_state[execution.state].discard(execution.id)
        self._attempts.pop(execution.id, None)
        self._outputs.pop(execution.id, None)

    def record(self, attempt: Attempt) -> None:
        """Write an attempt's row, new or changed."""
        self._attempts.setdefault(attempt.execution_id, {})[attempt.attempt] = attempt

    def attempts(self, execution_id: int) -> dict[int, Attempt]:
        """Give an execution's attempts by number, oldest first."""
        return dict(self._attempts.get(execution_id, {}))

    def keep_output(self, execution_id: int, output: Output) -> None:
        """Keep what an attempt wrote, in place of what it had written before."""
        self._outputs.setdefault(execution_id, {})[output.attempt] = output

    def outputs(self, execution_id: int) -> tuple[Output, ...]:
        """Give what an execution's attempts wrote, oldest first."""
        return tuple(self._outputs.get(execution_id, {}).values())

    def _write(self, execution: Execution) -> None:
        self._rows[execution.id] = execution
        self._in_state[execution.state].add(execution.id)
        if execution.state in UNFINISHED:
            self._unfinished_of[execution.scheduler_id].add(execution.id)
        else:
            self._unfinished_of[execution.scheduler_id].discard(execution.id)
