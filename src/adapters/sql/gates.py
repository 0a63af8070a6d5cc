"""The gates in SQL: who passes at a start, who is held back at a claim, and who is let go.

The row of a gate is a lock: whoever starts an attempt, or lets one go, keeps the rows of its gates
locked. Who has a place of a key says so in its own row, see `domain/lifecycle/gates.py`.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
from sqlalchemy import Connection, Row, Select, bindparam, func, insert, select

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
    gates_of,
    key_gate,
    key_of,
    place_in_line,
    replace_by,
    schedule_of,
)
from cronhare.domain.lifecycle.transitions import hold, let_go, place_with
from cronhare.domain.schedules.schedule import LIMITS, BrokenSchedule, OverlapPolicy, Schedule
from cronhare.ports.attempts import Busy, Refused
from cronhare.ports.claims import LetGo

from .database import Database, StorePart, repeatable, repeatable_unless_locked
from .dialect import Locked, excluding
from .tables.executions import BY_IDS, executions_of, in_states, is_in
from .tables.tables import FOUND_BY_KEY, IDS, executions, gates, schedulers
from .writing import Change, Written, set_broken_apart, write_changes, write_each

_RUN: Final = executions.c

#: So many executions that keep others of their schedule back are looked at; others wait for them.
_MOST_ACTIVE: Final = 100

_NAMES: Final = gates.c.name.in_(bindparam("names", expanding=True))
_KNOWN: Final = select(gates.c.name).where(_NAMES).with_hint(gates, FOUND_BY_KEY, "mysql")
_LOCKED: Final = _KNOWN.with_for_update(skip_locked=True)
_INSERT: Final = insert(gates)
_PLACED: Final = select(_RUN.held_by, _RUN.id, _RUN.state).where(
    _RUN.held_by.in_(bindparam("places", expanding=True)),
    # What had to be sent again may be in a queue without a worker. It is judged at its start.
    (_RUN.state == State.RUNNING.value) | (_RUN.resends == 0),
)
_FIRST: Final[Select[Any]] = (
    select(_RUN.due_at)
    .where(_RUN.held_by == gates.c.name, is_in(State.HELD))
    .order_by(_RUN.due_at, _RUN.id)
    .limit(1)
    .correlate(gates)
)
#: When the first in the line of each gate was due, and its schedule.
_HEADS: Final[Select[Any]] = (
    select(
        gates.c.name,
        _FIRST.scalar_subquery().label("begins"),
        _FIRST.with_only_columns(_RUN.scheduler_id).scalar_subquery().label("schedule"),
    )
    .where(_NAMES)
    .with_hint(gates, FOUND_BY_KEY, "mysql")
)
#: The same of gates that are not locked, and may have no row.
_LINES: Final = (
    select(_RUN.held_by, func.min(_RUN.due_at).label("begins"))
    .where(_RUN.held_by.in_(bindparam("names", expanding=True)))
    .group_by(_RUN.held_by)
)
_ACTIVE: Final = (
    select(_RUN.id, _RUN.state, _RUN.due_at, _RUN.executed_at)
    .where(
        _RUN.scheduler_id == bindparam("scheduler_id"),
        _RUN.finished_at.is_(None),  # for the index
        in_states(ACTIVE),
    )
    .order_by(_RUN.id)
    .limit(_MOST_ACTIVE)
)
_RULES: Final = select(
    *schedulers.c["id", "overlap_policy", "concurrency_key", "concurrency_limit"]
).where(schedulers.c.id.in_(IDS))


class MissingGates(Exception):
    """Some gates have no row yet: `make_gates`, and begin anew."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        super().__init__(", ".join(sorted(names)))


def make_gates(database: Database, names: Collection[str], now: datetime) -> None:
    """Make the rows of gates that have none, in a transaction of its own that waits for nobody.

    Where it would have to wait the gates stay missing, which counts as locked.
    """

    @repeatable_unless_locked
    def make() -> None:
        with database.write("making gates") as connection:
            known = set(connection.scalars(_KNOWN, {"names": list(names)}))
            rows = [{"name": name, "used_at": now} for name in sorted(set(names) - known)]
            if rows:
                connection.execute(_INSERT, rows)

    with suppress(Locked):
        make()


class LockedGates:
    """Gates whose rows are locked by us; those that another transaction has are *busy*.

    *heads* gives the schedule of the first in the line of each that has a line.
    """

    def __init__(self, connection: Connection, names: Collection[str]) -> None:
        self._connection = connection
        asked = {"names": sorted(names)}
        locked = frozenset(connection.scalars(_LOCKED, asked)) if names else frozenset[str]()
        self.busy = frozenset(names) - locked
        if self.busy:
            known = connection.scalars(_KNOWN, {"names": sorted(self.busy)})
            if missing := self.busy.difference(known):
                raise MissingGates(missing)
        found = connection.execute(_HEADS, {"names": sorted(locked)}).all() if locked else ()
        self.heads = {row.name: row.schedule for row in found if row.schedule is not None}
        self.gates = Gates(
            keys=_read_keys(connection, {row.name: row.begins for row in found}),
            schedules=self._read_schedules(locked),
        )

    def read_others(self, names: Collection[str]) -> None:
        """Read gates that are not locked as well: they may keep somebody back, too."""
        known = self.gates
        known.keys |= read_keys(self._connection, set(names) - known.keys.keys())
        known.schedules |= self._read_schedules(set(names) - known.schedules.keys())

    def read_rules(self, scheduler_ids: Collection[int]) -> None:
        """Read what schedules say of their runs; people write it by hand.

        Where one is gone, or its limit is nothing that could be meant, the limit is the smallest.
        """
        rules = self.gates.rules
        unknown = set(scheduler_ids) - rules.keys()
        if not unknown:
            return
        rules |= dict.fromkeys(unknown, Rules(limit=UNREADABLE_LIMIT))
        for row in self._connection.execute(_RULES, {"ids": sorted(unknown)}):
            policies = [one for one in OverlapPolicy if one.value == row.overlap_policy]
            rules[row.id] = Rules(
                overlap=policies[0] if policies else OverlapPolicy.ALLOW,
                limit=_limit_of(row.concurrency_key, row.concurrency_limit),
            )

    def _read_schedules(self, names: Collection[str]) -> dict[str, ScheduleGate]:
        return {
            name: self._read_schedule(id_)
            for name in names
            if (id_ := schedule_of(name)) is not None
        }

    def _read_schedule(self, scheduler_id: int) -> ScheduleGate:
        rows = self._connection.execute(_ACTIVE, {"scheduler_id": scheduler_id})
        active = (
            Active(id=row.id, state=State(row.state), due_at=row.due_at or row.executed_at)
            for row in rows
        )
        return ScheduleGate(active={one.id: one for one in active})


def read_keys(connection: Connection, names: Collection[str]) -> dict[str, KeyGate]:
    """Read gates of keys without locking them: what they say may be over when it is used."""
    asked = sorted(name for name in names if key_of(name) is not None)
    if not asked:
        return {}
    lines = connection.execute(_LINES, {"names": asked})
    begins = {row.held_by: row.begins for row in lines}
    return _read_keys(connection, {name: begins.get(name) for name in asked})


def _read_keys(connection: Connection, begins: Mapping[str, datetime | None]) -> dict[str, KeyGate]:
    found = {
        name: KeyGate(key=key, line_begins=first)
        for name, first in begins.items()
        if (key := key_of(name)) is not None
    }
    places = {place_with(gate.key): gate for gate in found.values()}
    if places:
        for place, id_, state in connection.execute(_PLACED, {"places": sorted(places)}):
            if state in PLACED:
                places[place].placed.add(id_)
            if state == State.RUNNING:
                places[place].running.add(id_)
    return found


def _limit_of(key: object, limit: object) -> int | None:
    if key is None and limit is None:
        return None
    return limit if isinstance(limit, int) and limit in LIMITS else UNREADABLE_LIMIT


@attrs.frozen(kw_only=True)
class GatedStarts:
    """What passed its gates, what is held back, and what could not be judged now."""

    started: Sequence[Change]
    held: Sequence[Change] = ()
    busy: frozenset[int] = frozenset()
    #: What is answered in the place of a start.
    instead: Mapping[int, Refused | Busy] = attrs.field(factory=dict[int, Refused | Busy])


def pass_gates(
    connection: Connection, started: Sequence[Change], without: Collection[str]
) -> GatedStarts:
    """Let starts pass their gates, those first that were due first.

    Their executions are locked. Gates are locked without waiting; those in *without* count as
    locked by others.
    """
    free = [change for change in started if not gates_of(change[0])]
    gated = [change for change in started if gates_of(change[0])]
    names = {name for before, _ in gated for name in gates_of(before)}
    locked = LockedGates(connection, names.difference(without))
    closed = locked.busy.union(without)
    judged = [change for change in gated if closed.isdisjoint(gates_of(change[0]))]
    locked.read_rules({before.scheduler_id for before, _ in judged})
    busy = frozenset(before.id for before, _ in gated) - {before.id for before, _ in judged}
    instead: dict[int, Refused | Busy] = dict.fromkeys(busy, Busy())
    held: list[Change] = []
    for before, _ in sorted(judged, key=lambda change: place_in_line(change[0])):
        if (why := locked.gates.start(before)) is not None:
            held.append((before, hold(before, why.gate)))
            instead[before.id] = Refused(f"held: {why.reason}", gate=why.gate)
    started = [*free, *(change for change in judged if change[0].id not in instead)]
    return GatedStarts(started=started, held=held, busy=busy, instead=instead)


def hold_back(
    connection: Connection,
    wanted: Sequence[Execution],
    schedules: Sequence[Schedule | BrokenSchedule],
) -> Sequence[Execution]:
    """Give claims their places, or hold them back, in the order of their due times.

    What begins later, by jitter, is judged then. Nearly always no schedule has a key.
    """
    limits = {
        one.id: Rules(limit=one.concurrency.limit)
        for one in schedules
        if isinstance(one, Schedule) and one.concurrency is not None
    }
    if not limits:
        return wanted
    names = {key_gate(one.concurrency_key) for one in wanted if one.concurrency_key is not None}
    found = Gates(keys=read_keys(connection, names), rules=limits)
    return [found.claim(one) for one in sorted(wanted, key=lambda one: one.due_at)]


#: At the gates of so many schedules is looked again after a claim, in case that there is a place
#: now. The others are left to whoever ends there, and to the reconciler.
MOST_TRIED: Final = 20


def gates_to_try(inserted: Sequence[Execution]) -> tuple[str, ...]:
    """Name the gates of some schedules that hold runs of a batch back."""
    names = dict.fromkeys(one.held_by for one in inserted if one.held_by)
    return tuple(name for name in names if schedule_of(name) is not None)[:MOST_TRIED]


#: The row of a gate is made anew where it is needed after that.
KEPT_FOR: Final = timedelta(days=1)


# Letting go, or replacing, what gates hold back, once there is room


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
            write_changes(connection, passing.changes)
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
