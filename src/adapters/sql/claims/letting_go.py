"""Letting go, or replacing, what gates hold back, once there is room."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, bindparam, select

from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle.gates import gates_of, place_in_line, replace_by
from cronhare.domain.lifecycle.transitions import hold, let_go
from cronhare.ports.claims import LetGo

from ..database import StorePart, repeatable, repeatable_unless_locked
from ..dialect import excluding
from ..gates import LockedGates, MissingGates, make_gates
from ..tables.executions import BY_IDS, executions_of, in_states, is_in
from ..tables.tables import executions
from ..writing import Change, Written, set_broken_apart, write_changes, write_each

_RUN: Final = executions.c

#: So many executions are let go at a gate in one call, or cancelled.
MOST_AT_ONCE: Final = 100

_LINE: Final[Select[Any]] = (
    select(_RUN.id, _RUN.scheduler_id)
    .where(_RUN.held_by == bindparam("gate"), is_in(State.HELD))
    .order_by(_RUN.due_at, _RUN.id)
)
_UNLOCKED: Final = BY_IDS.with_for_update(skip_locked=True)
_TO_END: Final = (
    select(_RUN.id)
    .where(
        _RUN.scheduler_id == bindparam("scheduler_id"),
        _RUN.finished_at.is_(None),  # for the index
        in_states(UNFINISHED),
    )
    .limit(MOST_AT_ONCE)
)
_OLDEST: Final = _TO_END.order_by(_RUN.due_at, _RUN.id)
_NEWEST: Final = _TO_END.where(_RUN.held_by == bindparam("gate")).order_by(
    _RUN.due_at.desc(), _RUN.id.desc()
)
_GATES: Final = (
    select(_RUN.held_by)
    .where(_RUN.held_by > bindparam("after"), is_in(State.HELD))
    .group_by(_RUN.held_by)
    .order_by(_RUN.held_by)
    .limit(bindparam("limit"))
)


class LettingGo(StorePart):
    """The part of `ClaimStorePort` that lets go what is held back."""

    @repeatable
    def gates(self, *, after: str, limit: int) -> Sequence[str]:
        with self._database.read("looking for what is held back") as connection:
            return connection.scalars(_GATES, {"after": after, "limit": limit}).all()

    def let_go(self, gates: Collection[str], *, now: datetime) -> LetGo:
        def write(part: Sequence[str]) -> Written[LetGo]:
            return self._pass(part, now)

        def busy(gate: str, _: Exception | None = None) -> Sequence[LetGo]:
            return [LetGo(busy=frozenset({gate}))]

        asked = sorted(set(gates))
        for _ in range(2):
            try:
                found = write_each(asked, write, refused=busy, locked=busy)
            except MissingGates as missing:
                make_gates(self._database, missing.names, now)
            else:
                return LetGo(
                    executions=tuple(one for each in found for one in each.executions),
                    cancelled=tuple(one for each in found for one in each.cancelled),
                    busy=frozenset[str]().union(*(each.busy for each in found)),
                )
        return LetGo(busy=frozenset(asked))

    @repeatable_unless_locked
    def _pass(self, asked: Sequence[str], now: datetime) -> Written[LetGo]:
        passed_over = self._database.passed_over.at(now)
        line = excluding(_LINE, _RUN.id, passed_over).limit(MOST_AT_ONCE)
        with self._database.write("letting go what was held back") as connection:
            locked = LockedGates(connection, asked)
            locked.read_rules(set(locked.heads.values()))
            lines = {
                gate: found
                for gate, first in sorted(locked.heads.items())
                if locked.gates.has_room(gate, first)
                and (found := connection.execute(line, {"gate": gate}).all())
            }
            locked.read_rules({row.scheduler_id for found in lines.values() for row in found})
            passing = _Passing(connection, locked, now, passed_over)
            for gate, found in lines.items():
                passing.pass_gate(gate, found)
            write_changes(connection, self._database.dialect, passing.changes)
        answer = LetGo(
            executions=tuple(passing.let_go), cancelled=tuple(passing.cancelled), busy=locked.busy
        )
        return Written([answer], changed=bool(passing.changes))


class _Passing:
    def __init__(
        self,
        connection: Connection,
        locked: LockedGates,
        now: datetime,
        passed_over: Collection[int],
    ) -> None:
        self.changes: list[Change] = []
        self.let_go: list[Execution] = []
        self.cancelled: list[Execution] = []
        self._connection = connection
        self._locked = locked
        self._now = now
        self._passed_over = passed_over

    def pass_gate(self, gate: str, line: Sequence[Row[Any]]) -> None:
        gates = self._locked.gates
        if gates.replaces(gate):
            ids = self._replace(gate, line[0].scheduler_id)
            held = [] if gates.schedules[gate].active else self._lock(ids)
        else:
            held = self._head(gate, line)
        self._locked.read_others({name for one in held for name in gates_of(one)})
        for one in held:
            blocked = gates.let_go(one)
            if blocked is None:
                after = let_go(one, now=self._now)
                self.let_go.append(after)
            elif blocked.gate == gate:
                break
            else:  # it goes on to wait there
                after = hold(one, blocked.gate)
            self.changes.append((one, after))

    def _head(self, gate: str, line: Sequence[Row[Any]]) -> list[Execution]:
        """Lock as many at the head of a line as have room; whom somebody else has is passed over.

        So is what is broken: those behind them go on.
        """
        gates, ids = self._locked.gates, [row.id for row in line]
        room = gates.room(gate, [row.scheduler_id for row in line])
        held = self._lock(ids[:room])
        if len(held) == room:
            return held
        held += self._lock(ids[room:])
        return held[: gates.room(gate, [one.scheduler_id for one in held])]

    def _replace(self, gate: str, scheduler_id: int) -> list[int]:
        """Cancel those before the newest that waits; give its id, if it can be had.

        It goes on once none before it is left: one that was would begin after it.
        """
        first = self._ids(_OLDEST, scheduler_id=scheduler_id)
        last = self._ids(_NEWEST, scheduler_id=scheduler_id, gate=gate)
        unfinished = self._lock(sorted({*first, *last}))
        held = [one for one in unfinished if one.held_by == gate]
        if not held:
            return []
        newest = held[-1]
        replaced = replace_by(newest, unfinished, self._now)
        now_replaced = replaced[:MOST_AT_ONCE]
        self.changes += now_replaced
        self.cancelled += [after for _, after in now_replaced]
        self._locked.gates.cancelled(gate, self.cancelled)
        is_alone = newest.id in first and len(replaced) < MOST_AT_ONCE
        return [newest.id] if is_alone else []

    def _ids(self, statement: Select[Any], **asked: object) -> Sequence[int]:
        those = excluding(statement, _RUN.id, self._passed_over)
        return self._connection.scalars(those, asked).all()

    def _lock(self, ids: Sequence[int]) -> list[Execution]:
        if not ids:
            return []
        rows: Any = self._connection.execute(_UNLOCKED, {"ids": list(ids)})
        found = executions_of(self._connection, rows)
        set_broken_apart(self._connection, found, self._now)
        sound = [one for one in found if one.problem is None and one.state in UNFINISHED]
        return sorted(sound, key=place_in_line)
