"""Gates in memory: who has a place, who waits, and who may go on."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle.gates import (
    ACTIVE,
    PLACED,
    UNREADABLE_LIMIT,
    Active,
    Gates,
    KeyGate,
    Rules,
    ScheduleGate,
    begins_now,
    gates_of,
    key_gate,
    key_of,
    place_in_line,
    replace_by,
    schedule_of,
)
from cronhare.domain.lifecycle.transitions import hold, let_go
from cronhare.ports.claims import LetGo

from .execution_table import ExecutionTable
from .schedule_table import ScheduleTable


class GateTable:
    """The places at the gates of keys. Whoever asks holds the ledger's lock."""

    def __init__(self, executions: ExecutionTable, schedules: ScheduleTable) -> None:
        self._executions = executions
        self._schedules = schedules
        self._places: dict[str, dict[int, int]] = {}

    def load(self, names: Collection[str], scheduler_ids: Collection[int]) -> Gates:
        """Give gates as they stand, and the rules of schedules."""
        ids = {name: id_ for name in names if (id_ := schedule_of(name)) is not None}
        return Gates(
            keys={
                name: self._key(name, key) for name in names if (key := key_of(name)) is not None
            },
            schedules={name: self._schedule(id_) for name, id_ in ids.items()},
            rules={id_: self._rules(id_) for id_ in scheduler_ids},
        )

    def load_for(self, found: Sequence[Execution]) -> Gates:
        """Give the gates that executions have to pass."""
        names = {name for one in found for name in gates_of(one)}
        return self.load(names, {one.scheduler_id for one in found})

    def keep(self, gates: Gates) -> None:
        """Keep who has a place now."""
        for name, gate in gates.keys.items():
            self._places[name] = gate.places

    def names(self) -> Sequence[str]:
        """Name the gates at which something waits."""
        return sorted({one.held_by for one in self._held() if one.held_by is not None})

    def place(self, inserted: Sequence[Execution]) -> None:
        """Give places to what was claimed just now, and begins at once."""
        for one in inserted:
            if one.concurrency_key is not None and begins_now(one):
                self._places.setdefault(key_gate(one.concurrency_key), {})[one.id] = one.attempt

    def let_go(self, gate: str, now: datetime) -> LetGo:
        """Let go at one gate."""
        line = sorted((one for one in self._held() if one.held_by == gate), key=place_in_line)
        names = {gate, *(name for one in line for name in gates_of(one))}
        gates = self.load(names, {one.scheduler_id for one in line})
        cancelled: list[Execution] = []
        room = gates.room(gate, [one.scheduler_id for one in line])
        if line and gates.replaces(gate):
            newest = line[-1]
            others = self._executions.of_schedule_in(newest.scheduler_id, UNFINISHED)
            replaced = replace_by(newest, others, now)
            cancelled = [self._executions.write(*change) for change in replaced]
            gates.cancelled(gate, cancelled)
            line, room = [newest], 0 if gates.schedules[gate].active else 1
        free = list(self._pass(gate, line[:room], gates, now))
        self.keep(gates)
        return LetGo(executions=tuple(free), cancelled=tuple(cancelled))

    def _pass(
        self, gate: str, line: Sequence[Execution], gates: Gates, now: datetime
    ) -> Iterator[Execution]:
        for one in line:
            blocked = gates.let_go(one)
            if blocked is None:
                yield self._executions.write(one, let_go(one, now=now))
            elif blocked.gate == gate:
                return
            else:  # it goes on to wait there
                self._executions.write(one, hold(one, blocked.gate))

    def held_back(self, wanted: Sequence[Execution]) -> Sequence[Execution]:
        """Hold those back whose keys have no place."""
        keyed = [one for one in wanted if one.concurrency_key is not None]
        if not keyed:
            return wanted
        gates = self.load_for(keyed)
        return [gates.claim(one) for one in sorted(wanted, key=lambda one: one.due_at)]

    def _held(self) -> Iterator[Execution]:
        return self._executions.in_states({State.HELD})

    def _key(self, name: str, key: str) -> KeyGate:
        gate = KeyGate(key=key)
        for id_, attempt in self._places.get(name, {}).items():
            execution = self._executions.get(id_)
            if execution is None or execution.attempt != attempt:
                continue
            if execution.state in PLACED:
                gate.take(execution, runs=execution.state is State.RUNNING)
        waiting = (one.due_at for one in self._held() if one.held_by == name)
        gate.line_begins = min(waiting, default=None)
        return gate

    def _schedule(self, scheduler_id: int) -> ScheduleGate:
        active = self._executions.of_schedule_in(scheduler_id, ACTIVE)
        return ScheduleGate(
            active={one.id: Active(id=one.id, state=one.state, due_at=one.due_at) for one in active}
        )

    def _rules(self, scheduler_id: int) -> Rules:
        row = self._schedules.row(scheduler_id)
        if row is None:
            return Rules(limit=UNREADABLE_LIMIT)
        concurrency = row.schedule.concurrency
        limit = None if concurrency is None else concurrency.limit
        return Rules(overlap=row.schedule.overlap, limit=limit)
