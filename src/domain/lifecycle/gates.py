"""The gates that hold executions back: a limit per concurrency key, and the runs of one schedule.

Whoever starts an attempt, or lets one go that was held back, keeps the rows of its gates locked and
asks here. What is held back waits in the ledger, in one line per gate, in the order of due times.

A key has places: for what runs, and for what was claimed or let go and is on its way to a worker.
Whoever has one says so in its `held_by` (`transitions.place_of`) until its attempt ends; what had
to be sent again counts only once it runs, as its queue may have no worker. A schedule's gate has
one place, and whatever of the schedule has not ended and is not held back keeps others from it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

import attrs
import msgspec

from ..execution import Execution, State
from ..schedules.schedule import OverlapPolicy
from .transitions import cancel_for, place_of

_KEY: Final = "key "
_SCHEDULE: Final = "schedule "

#: The states of an execution that has a place of a key. One that waits for a retry gives it away.
PLACED: Final = frozenset({State.CLAIMED, State.PUBLISHED, State.RUNNING})

#: The states in which an execution of a schedule keeps others from its gate.
ACTIVE: Final = PLACED | {State.RETRYING}

#: A limit that cannot be read counts as this one: it is never exceeded, and nothing waits for ever.
UNREADABLE_LIMIT: Final = 1


def key_gate(key: str) -> str:
    return f"{_KEY}{key}"


def schedule_gate(scheduler_id: int) -> str:
    return f"{_SCHEDULE}{scheduler_id}"


def key_of(gate: str) -> str | None:
    return gate.removeprefix(_KEY) if gate.startswith(_KEY) else None


def schedule_of(gate: str) -> int | None:
    digits = gate.removeprefix(_SCHEDULE)
    return int(digits) if digits != gate and digits.isdecimal() else None


def gates_of(execution: Execution) -> tuple[str, ...]:
    """Name the gates that an execution has to pass, in order; nearly all pass none."""
    gates: tuple[str, ...] = ()
    if execution.overlap_policy is not None:
        gates += (schedule_gate(execution.scheduler_id),)
    if execution.concurrency_key is not None:
        gates += (key_gate(execution.concurrency_key),)
    return gates


def place_in_line(execution: Execution) -> tuple[datetime, int]:
    return execution.due_at, execution.id


@attrs.frozen(kw_only=True)
class Rules:
    """What a schedule says now of its runs; without a *limit* they pass the gate of their key."""

    overlap: OverlapPolicy = OverlapPolicy.ALLOW
    limit: int | None = None


_NO_RULES: Final = Rules()


@attrs.frozen
class Blocked:
    """Which gate keeps an execution back, and why."""

    gate: str
    reason: str


@attrs.define(kw_only=True)
class KeyGate:
    """The gate of a key while it is looked at; the first in its line was due at *line_begins*."""

    key: str
    placed: set[int] = attrs.field(factory=set[int])
    running: set[int] = attrs.field(factory=set[int])
    line_begins: datetime | None = None

    def keeps_from_start(self, execution: Execution, rules: Rules) -> str | None:
        """Say why an attempt may not start now: it lets go first who is before it in line."""
        if rules.limit is None:
            return None
        if execution.id in self.placed:
            return None if len(self.running) < rules.limit else self._full(rules.limit)
        if len(self.placed) >= rules.limit:
            return self._full(rules.limit)
        if self.line_begins is not None and self.line_begins < execution.due_at:
            return self._line()
        return None

    def keeps_in_line(self, _held: Execution, rules: Rules) -> str | None:
        is_full = rules.limit is not None and len(self.placed) >= rules.limit
        return self._full(rules.limit) if is_full else None

    def enter(self, execution: Execution, state: State) -> None:
        self.placed.add(execution.id)
        if state is State.RUNNING:
            self.running.add(execution.id)

    def leave(self, execution: Execution) -> None:
        self.placed.discard(execution.id)

    def _full(self, limit: int | None) -> str:
        return f"{len(self.placed)} of {limit} with key {self.key} run"

    def _line(self) -> str:
        return f"others wait before it with key {self.key}"


@attrs.frozen(kw_only=True)
class Active:
    """An execution that keeps others of its schedule back."""

    id: int
    state: State
    due_at: datetime


@attrs.define(kw_only=True)
class ScheduleGate:
    """The gate of a schedule while it is looked at, and who is *active*."""

    active: dict[int, Active] = attrs.field(factory=dict[int, Active])

    def keeps_from_start(self, execution: Execution, rules: Rules) -> str | None:
        """Say why an attempt may not start now: another has begun, or is to begin before it."""
        place = place_in_line(execution)
        for other in self._others(execution, rules):
            has_begun = other.state in {State.RUNNING, State.RETRYING}
            if has_begun or (other.due_at, other.id) < place:
                return _waits_for(other)
        return None

    def keeps_in_line(self, held: Execution, rules: Rules) -> str | None:
        return next(map(_waits_for, self._others(held, rules)), None)

    def enter(self, execution: Execution, state: State) -> None:
        entered = Active(id=execution.id, state=state, due_at=execution.due_at)
        self.active[execution.id] = entered

    def leave(self, execution: Execution) -> None:
        self.active.pop(execution.id, None)

    def _others(self, execution: Execution, rules: Rules) -> Iterator[Active]:
        others = self.active.values() if rules.overlap.waits else ()
        return (other for other in others if other.id != execution.id)


def _waits_for(other: Active) -> str:
    return f"execution {other.id} of the same schedule has not ended"


@attrs.define(kw_only=True)
class Gates:
    """The gates of some executions while they are looked at, and the *rules* of their schedules."""

    keys: dict[str, KeyGate] = attrs.field(factory=dict[str, KeyGate])
    schedules: dict[str, ScheduleGate] = attrs.field(factory=dict[str, ScheduleGate])
    rules: dict[int, Rules] = attrs.field(factory=dict[int, Rules])

    def start(self, execution: Execution) -> Blocked | None:
        gates, rules = self._passed(execution), self._rules_of(execution.scheduler_id)
        for name, gate in gates:
            if (reason := gate.keeps_from_start(execution, rules)) is not None:
                for _, each in gates:
                    each.leave(execution)
                return Blocked(name, reason)
        for _, gate in gates:
            gate.enter(execution, State.RUNNING)
        return None

    def let_go(self, held: Execution) -> Blocked | None:
        gates, rules = self._passed(held), self._rules_of(held.scheduler_id)
        for name, gate in gates:
            if (reason := gate.keeps_in_line(held, rules)) is not None:
                return Blocked(name, reason)
        for _, gate in gates:
            gate.enter(held, State.CLAIMED)
        return None

    def claim(self, new: Execution) -> Execution:
        """Give a claim as it is inserted: with a place, held back, or not yet judged (jitter)."""
        rules, key = self._rules_of(new.scheduler_id), new.concurrency_key
        begins = new.next_attempt_at or new.executed_at
        is_to_begin = new.state is State.CLAIMED and begins <= new.executed_at
        if key is None or rules.limit is None or not is_to_begin:
            return new
        gate = self.keys[key_gate(key)]
        if gate.line_begins is not None or gate.keeps_in_line(new, rules) is not None:
            gate.line_begins = gate.line_begins or new.due_at
            return msgspec.structs.replace(new, state=State.HELD, held_by=key_gate(key))
        gate.placed.add(-len(gate.placed) - 1)  # it has no id yet
        return msgspec.structs.replace(new, held_by=place_of(new))

    def has_room(self, gate: str, first: int) -> bool:
        """Tell whether the *first* of a line, given by its schedule, may change anything."""
        return self.replaces(gate) or self.room(gate, [first]) > 0

    def room(self, gate: str, line: Sequence[int]) -> int:
        """Say how many of a *line*, given by their schedules, may go on as far as its gate says."""
        if (key := self.keys.get(gate)) is not None:
            room = 0
            for scheduler_id in line:
                limit = self._rules_of(scheduler_id).limit
                if limit is not None and len(key.placed) + room >= limit:
                    break
                room += 1
            return room
        schedule = self.schedules.get(gate)
        if schedule is None or not line or not self._rules_of(line[0]).overlap.waits:
            return len(line)
        return 0 if schedule.active else 1

    def replaces(self, gate: str) -> bool:
        scheduler_id = schedule_of(gate)
        wanted = OverlapPolicy.CANCEL_PREVIOUS
        return scheduler_id is not None and self._rules_of(scheduler_id).overlap is wanted

    def cancelled(self, gate: str, cancelled: Collection[Execution]) -> None:
        for one in cancelled:
            if one.state is State.CANCELLED:
                self.schedules[gate].leave(one)

    def _passed(self, execution: Execution) -> list[tuple[str, KeyGate | ScheduleGate]]:
        names = gates_of(execution)
        return [(name, self.schedules.get(name) or self.keys[name]) for name in names]

    def _rules_of(self, scheduler_id: int) -> Rules:
        return self.rules.get(scheduler_id, _NO_RULES)


def replace_by(
    newest: Execution, unfinished: Iterable[Execution], now: datetime
) -> list[tuple[Execution, Execution]]:
    """Cancel those before the *newest* in the line, or ask for their end: before it, and after."""
    place = place_in_line(newest)
    before = [one for one in unfinished if place_in_line(one) < place]
    changes = [(one, cancel_for(one, newest.id, now=now)) for one in before]
    return [(one, after) for one, after in changes if after != one]
