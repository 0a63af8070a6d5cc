"""The in-memory ledger's executions, with their attempts and what these wrote."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import count
from typing import Any

import msgspec

from cronhare.domain.execution import UNFINISHED, Execution, State, may_move
from cronhare.ports.records import Attempt, Output


class History:
    """Executions by id, by key and by state."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._rows: dict[int, Execution] = {}
        self._id_of: dict[tuple[int, str], int] = {}
        self._in_state: dict[State, set[int]] = {state: set() for state in State}
        self._unfinished_of: defaultdict[int, set[int]] = defaultdict(set)
        self._expected_at: dict[int, datetime] = {}
        self._attempts: dict[int, dict[int, Attempt]] = {}
        self._outputs: dict[int, dict[int, Output]] = {}

    def get(self, execution_id: int) -> Execution | None:
        """Find an execution by its id."""
        return self._rows.get(execution_id)

    def with_key(self, scheduler_id: int, key: str) -> Execution | None:
        """Find an execution by its key."""
        return self._rows.get(self._id_of.get((scheduler_id, key), 0))

    def newest_first(self) -> Iterator[Execution]:
        """Walk through all executions."""
        return reversed(self._rows.values())

    def in_states(self, states: Collection[State]) -> Iterator[Execution]:
        """Walk through the executions that are in one of these states, in no order."""
        for state in states:
            for id_ in self._in_state[state]:
                yield self._rows[id_]

    def unfinished_of(self, scheduler_id: int) -> int | None:
        """Name the oldest execution of a schedule that has not ended."""
        return min(self._unfinished_of[scheduler_id], default=None)

    def insert(self, claim: Execution) -> Execution | None:
        """Insert a claim and give it its id; None if its key is taken, which is the judge."""
        key = (claim.scheduler_id, claim.key)
        if key in self._id_of:
            return None
        execution = msgspec.structs.replace(claim, id=next(self._ids))
        self._id_of[key] = execution.id
        self._write(execution)
        return execution

    def move(self, before: Execution, after: Execution) -> Execution:
        """Take an execution to another state, along a road that the domain knows."""
        if not may_move(before.state, after.state):
            raise ValueError(f"no road leads from {before.state} to {after.state}")
        self._expected_at.pop(before.id, None)
        return self._replace(before, after)

    def change(self, execution: Execution, **changes: Any) -> Execution:  # noqa: ANN401
        """Write an execution with some of its fields changed, its state aside."""
        return self._replace(execution, msgspec.structs.replace(execution, **changes))

    def _replace(self, before: Execution, after: Execution) -> Execution:
        self._in_state[before.state].discard(before.id)
        self._write(after)
        return after

    def expect(self, execution: Execution, at: datetime) -> None:
        """Look for an execution's start from *at* on, until it moves to another state."""
        self._expected_at[execution.id] = at

    def expected_at(self, execution: Execution) -> datetime:
        """Say from when on an execution that has not begun is late."""
        own_time = execution.next_attempt_at or execution.executed_at
        return self._expected_at.get(execution.id, own_time)

    def delete(self, execution: Execution) -> None:
        """Forget an execution that has ended, its attempts, and what they wrote."""
        del self._rows[execution.id], self._id_of[execution.scheduler_id, execution.key]
        self._in_state[execution.state].discard(execution.id)
        self._expected_at.pop(execution.id, None)
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
