"""Rows of gates: locked, and read together with what decides who passes."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from sqlalchemy import Connection, Select, bindparam, func, insert, select, update

from cronhare.domain.execution import Execution, State
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
    key_gate,
    key_of,
    schedule_of,
)
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.schedules.concurrency import LIMITS
from cronhare.domain.schedules.schedule import OverlapPolicy

from ..database import Database, repeatable_unless_locked
from ..dialect import Dialect, Locked
from ..rows.executions import batches, is_in
from ..rows.schedules import moment_or_long_ago
from ..schema.tables import FOUND_BY_KEY, by_id, executions, gates, schedulers
from ..schema.types import UtcDateTime

#: So many gates are remembered, and for so long; beyond that all are forgotten.
MOST: Final = 50_000
RECENT: Final = timedelta(seconds=10)

#: The attempt that has a place, by its execution.
Places = dict[int, int]


class RecentClaims:
    """Claims by their gates. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[str, tuple[datetime, Places]] = {}

    def note(self, claimed: Sequence[Execution]) -> None:
        """Take note of claims; nearly always none has a key."""
        keyed = [one for one in claimed if one.concurrency_key is not None and begins_now(one)]
        if not keyed:
            return
        with self._lock:
            if len(self._found) > MOST:
                self._found.clear()
            for one in keyed:
                gate, now = key_gate(one.concurrency_key or ""), one.executed_at
                self._found[gate] = (now, {**self._places(gate, now), one.id: one.attempt})

    def at(self, gates: Collection[str], now: datetime) -> dict[str, Places]:
        """Give what was claimed for some gates."""
        if not self._found:
            return {}
        with self._lock:
            found = {gate: self._places(gate, now) for gate in gates if gate in self._found}
        return {gate: places for gate, places in found.items() if places}

    def forget(self, gates: Collection[str]) -> None:
        """Drop what has its places in the rows of gates."""
        with self._lock:
            for gate in gates:
                self._found.pop(gate, None)

    def _places(self, gate: str, now: datetime) -> Places:
        at, places = self._found.get(gate, (now, {}))
        return places if abs(now - at) <= RECENT else {}


#: In place of a schedule that cannot be read. No rule keeps its execution back: it passes its gate,
#: and is set apart there, as any broken row is.
SPOILT: Final = 0

#: So many executions are asked for in one statement.
_IDS_AT_ONCE: Final = 10_000

#: So many executions that keep others of their schedule back are looked at; others wait for them.
_MOST_ACTIVE: Final = 100

_NAMES: Final = gates.c.name.in_(bindparam("names", expanding=True))
_KNOWN: Final = select(gates.c.name).where(_NAMES).with_hint(gates, FOUND_BY_KEY, "mysql")
_PLACES: Final[Select[Any]] = (
    select(gates.c.name, gates.c.places).where(_NAMES).with_hint(gates, FOUND_BY_KEY, "mysql")
)
_UNLOCKED: Final = _PLACES.with_for_update(skip_locked=True)
_INSERT: Final = insert(gates)
_WRITE: Final = (
    update(gates)
    .where(gates.c.name == bindparam("gate"))
    .values(places=bindparam("new_places"), used_at=bindparam("used", type_=UtcDateTime))
)
_STANDING: Final = by_id(
    select(executions.c.id, executions.c.attempt, executions.c.concurrency_key, executions.c.state)
)
#: Who runs with a key whose row is new, or was spoilt. Few run at a time.
_RUNNING: Final = select(executions.c.id, executions.c.attempt, executions.c.concurrency_key).where(
    executions.c.state == State.RUNNING.value,
    executions.c.concurrency_key.in_(bindparam("keys", expanding=True)),
)
_FIRST_IN_LINE: Final[Select[Any]] = (
    select(executions.c.due_at)
    .where(executions.c.held_by == gates.c.name, is_in(State.HELD))
    .order_by(executions.c.due_at, executions.c.id)
    .limit(1)
    .correlate(gates)
)
_FIRST: Final = _FIRST_IN_LINE.scalar_subquery()
#: When the first in the line of each gate was due, as far as a gate has a row.
_LINES: Final[Select[Any]] = (
    select(gates.c.name, _FIRST.label("begins"))
    .where(_NAMES)
    .with_hint(gates, FOUND_BY_KEY, "mysql")
)
_FIRST_OF: Final = _FIRST_IN_LINE.with_only_columns(executions.c.scheduler_id).scalar_subquery()
#: The schedule of the first in the line of each gate.
_HEADS: Final[Select[Any]] = (
    select(gates.c.name, _FIRST_OF.label("scheduler_id"))
    .where(_NAMES)
    .with_hint(gates, FOUND_BY_KEY, "mysql")
)
#: The same for any gate, by the index alone: what a person changed by hand may be among it.
_ALL_LINES: Final = (
    select(executions.c.held_by, func.min(executions.c.due_at))
    .where(executions.c.held_by.in_(bindparam("names", expanding=True)))
    .group_by(executions.c.held_by)
)
_ACTIVE: Final = (
    select(executions.c.id, executions.c.state, executions.c.due_at, executions.c.executed_at)
    .where(
        executions.c.scheduler_id == bindparam("scheduler_id"),
        executions.c.finished_at.is_(None),  # for the index
        executions.c.state.in_(sorted(state.value for state in ACTIVE)),
    )
    .order_by(executions.c.id)
    .limit(_MOST_ACTIVE)
)
_RULES: Final = select(
    schedulers.c.id,
    schedulers.c.overlap_policy,
    schedulers.c.concurrency_key,
    schedulers.c.concurrency_limit,
).where(schedulers.c.id.in_(bindparam("ids", expanding=True)))

_Number = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_ID)]
_DECODER: Final = msgspec.json.Decoder(list[tuple[_Number, _Number]])
#: The most letters of such a list: a longer one was written by hand.
_LONGEST: Final = 64 * 1024


class MissingGates(Exception):
    """Some gates have no row yet: `make_gates`, and begin anew."""

    def __init__(self, names: Collection[str]) -> None:
        """*names* are theirs."""
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


class GateRows:
    """The rows of some gates, locked by us. Those that another transaction has are *busy*."""

    def __init__(
        self,
        connection: Connection,
        names: Collection[str],
        *,
        lines: bool = False,
        recent: Mapping[str, Places] = MappingProxyType({}),
    ) -> None:
        """Lock rows without waiting; with *lines*, ask who waits there as well.

        What is *recent* has a place, too.

        Raises:
            MissingGates: some have no row.
        """
        self._connection = connection
        rows = connection.execute(_UNLOCKED, {"names": sorted(names)}) if names else ()
        places = {row.name: row.places for row in rows}
        self.locked = frozenset(places)
        self.busy = frozenset(names) - self.locked
        if self.busy:
            known = set(connection.scalars(_KNOWN, {"names": sorted(self.busy)}))
            if missing := self.busy - known:
                raise MissingGates(missing)
        listed = {name: _places_of(text) for name, text in places.items()}
        self._keys = _key_gates(connection, listed, recent)
        if self._keys and lines:
            for name, begins in connection.execute(_LINES, {"names": sorted(self._keys)}):
                self._keys[name].line_begins = begins if isinstance(begins, datetime) else None
        self._before = {name: listed[name] for name in self._keys}
        self.gates = Gates(keys=dict(self._keys))
        self._read_schedules(self.locked)

    def with_room(self) -> list[str]:
        """Give the gates of which the first in the line may go on, as far as its gate says."""
        if not self.locked:
            return []
        found = self._connection.execute(_HEADS, {"names": sorted(self.locked)})
        heads = {name: schedule_in(id_) for name, id_ in found if id_ is not None}
        self.read_rules(set(heads.values()))
        return sorted(gate for gate, id_ in heads.items() if self.gates.has_room(gate, id_))

    def read_others(self, names: Collection[str]) -> None:
        """Read gates that are not locked as well: they may keep somebody back, too."""
        gates = self.gates
        gates.keys |= read_keys(
            self._connection,
            {name for name in names if key_of(name) is not None} - gates.keys.keys(),
        )
        self._read_schedules(set(names) - gates.schedules.keys())

    def read_rules(self, scheduler_ids: Collection[int]) -> None:
        """Read what schedules say of their runs."""
        unknown = set(scheduler_ids) - self.gates.rules.keys()
        self.gates.rules |= read_rules(self._connection, unknown)

    def write(self, dialect: Dialect, now: datetime) -> None:
        """Write who has a place now."""
        rows = [
            {"gate": name, "new_places": _written(gate.places), "used": now}
            for name, gate in self._keys.items()
            if gate.places != self._before[name]
        ]
        if rows:
            dialect.update_many(self._connection, _WRITE, rows)

    def _read_schedules(self, names: Collection[str]) -> None:
        for name in names:
            if (scheduler_id := schedule_of(name)) is not None:
                self.gates.schedules[name] = self._schedule(scheduler_id)

    def _schedule(self, scheduler_id: int) -> ScheduleGate:
        rows = self._connection.execute(_ACTIVE, {"scheduler_id": scheduler_id})
        active = [
            Active(
                id=row.id,
                state=State(row.state),
                due_at=moment_or_long_ago(row.due_at or row.executed_at),
            )
            for row in rows
            if row.state in ACTIVE
        ]
        return ScheduleGate(active={one.id: one for one in active})


def read_keys(connection: Connection, names: Collection[str]) -> dict[str, KeyGate]:
    """Read gates of keys without locking them: what they say may be over when it is used.

    Where somebody waits there is no place, and nobody asks who has them.
    """
    if not names:
        return {}
    asked = {"names": sorted(names)}
    begins = {
        name: begins
        for name, begins in connection.execute(_ALL_LINES, asked)
        if isinstance(begins, datetime)
    }
    listed: dict[str, Places | None] = {name: {} for name in names}
    for row in connection.execute(_PLACES, asked):
        if row.name not in begins:
            listed[row.name] = _places_of(row.places)
    found = _key_gates(connection, listed, {})
    for name, gate in found.items():
        gate.line_begins = begins.get(name)
    return found


def _key_gates(
    connection: Connection,
    listed: Mapping[str, Places | None],
    recent: Mapping[str, Places],
) -> dict[str, KeyGate]:
    """Make the gates of keys from the lists of their rows; None is a list that cannot be read."""
    found = {name: KeyGate(key=key) for name in listed if (key := key_of(name)) is not None}
    known = {name: {**recent.get(name, {}), **(listed[name] or {})} for name in found}
    _keep_standing(connection, found, known)
    _add_running(connection, [found[name] for name in found if listed[name] is None])
    return found


def _keep_standing(
    connection: Connection, found: Mapping[str, KeyGate], listed: Mapping[str, Places]
) -> None:
    """Keep the places of attempts that run, or are on their way to a worker."""
    ids = sorted({id_ for places in listed.values() for id_ in places})
    states = {
        (id_, attempt, _gate_of(key)): state
        for part in batches(ids, _IDS_AT_ONCE)
        for id_, attempt, key, state in connection.execute(_STANDING, {"ids": part})
        if state in PLACED
    }
    for name, places in listed.items():
        gate = found[name]
        for id_, attempt in places.items():
            if (state := states.get((id_, attempt, name))) is not None:
                gate.places[id_] = attempt
                if state == State.RUNNING:
                    gate.running.add(id_)


def _add_running(connection: Connection, unknown: Sequence[KeyGate]) -> None:
    """Find who runs with keys whose places are not known."""
    of_key = {gate.key: gate for gate in unknown}
    if not of_key:
        return
    for id_, attempt, key in connection.execute(_RUNNING, {"keys": sorted(of_key)}):
        if (gate := of_key.get(key.rstrip(" "))) is not None:
            gate.places[id_] = attempt
            gate.running.add(id_)


def _gate_of(key: object) -> str | None:
    return key_gate(key) if isinstance(key, str) else None


def schedule_in(value: object) -> int:
    """Read the schedule of an execution from its column, which in SQLite takes anything."""
    return value if isinstance(value, int) and 0 < value <= LARGEST_ID else SPOILT


def read_rules(connection: Connection, scheduler_ids: Collection[int]) -> dict[int, Rules]:
    """Read what schedules say of their runs; people write it by hand.

    Where one is gone, or its limit is nothing that could be meant, the limit is the smallest.
    """
    strictest = Rules(limit=UNREADABLE_LIMIT)
    found = dict.fromkeys(set(scheduler_ids) - {SPOILT}, strictest)
    if not found:
        return found
    for row in connection.execute(_RULES, {"ids": sorted(found)}):
        policies = [one for one in OverlapPolicy if one.value == row.overlap_policy]
        found[row.id] = Rules(
            overlap=policies[0] if policies else OverlapPolicy.ALLOW,
            limit=_limit_of(row.concurrency_key, row.concurrency_limit),
        )
    return found


def _limit_of(key: object, limit: object) -> int | None:
    if key is None and limit is None:
        return None
    return limit if isinstance(limit, int) and limit in LIMITS else UNREADABLE_LIMIT


def _places_of(text: Any) -> Places | None:  # noqa: ANN401 - what a column may hold
    """Read a list of places; None for what is none."""
    try:
        readable = isinstance(text, str) and len(text) <= _LONGEST
        return dict(_DECODER.decode(text)) if readable else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _written(places: Places) -> str:
    return msgspec.json.encode(list(places.items())).decode()
