"""The rows of gates: locked, and read together with what decides who passes."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from sqlalchemy import Connection, Select, bindparam, func, insert, select, update

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.gates import (
    ACTIVE,
    PLACED,
    UNREADABLE_LIMIT,
    Active,
    Gates,
    KeyGate,
    Rules,
    ScheduleGate,
    key_of,
    schedule_of,
)
from cronhare.domain.messages.messages import LARGEST_ID
from cronhare.domain.schedules.concurrency import LIMITS
from cronhare.domain.schedules.schedule import OverlapPolicy

from ..dialect import Dialect, Locked
from ..mapping.execution_rows import is_in
from ..mapping.schedule_rows import moment_or_long_ago
from ..schema.tables import FOUND_BY_KEY, by_id, executions, gates, schedulers
from ..schema.types import UtcDateTime
from ..transactions.database import Database, repeatable
from ..transactions.lock_waits import NOT_AT_ALL, limit_lock_wait

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
_STANDING: Final = by_id(select(executions.c.id, executions.c.attempt, executions.c.state))
#: Who runs with a key whose row is new, or was spoilt. Few run at a time.
_RUNNING: Final = select(executions.c.id, executions.c.attempt, executions.c.concurrency_key).where(
    executions.c.state == State.RUNNING.value,
    executions.c.concurrency_key.in_(bindparam("keys", expanding=True)),
)
_FIRST: Final = (
    select(executions.c.due_at)
    .where(executions.c.held_by == gates.c.name, is_in(State.HELD))
    .order_by(executions.c.due_at)
    .limit(1)
    .correlate(gates)
    .scalar_subquery()
)
#: When the first in the line of each gate was due, as far as a gate has a row.
_LINES: Final[Select[Any]] = (
    select(gates.c.name, _FIRST.label("begins"))
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

Places = dict[int, int]
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

    @repeatable
    def make() -> None:
        with database.write("making gates") as connection:
            known = set(connection.scalars(_KNOWN, {"names": list(names)}))
            rows = [{"name": name, "used_at": now} for name in sorted(set(names) - known)]
            if rows:
                connection.execute(_INSERT, rows)

    with suppress(Locked), limit_lock_wait(NOT_AT_ALL):
        make()


class GateRows:
    """The rows of some gates, locked by us. Those that another transaction has are *busy*."""

    def __init__(
        self, connection: Connection, names: Collection[str], *, lines: bool = False
    ) -> None:
        """Lock rows without waiting; with *lines*, ask who waits there as well.

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
        self._keys = _key_gates(connection, places)
        if self._keys and lines:
            for name, begins in connection.execute(_LINES, {"names": sorted(self._keys)}):
                self._keys[name].line_begins = begins if isinstance(begins, datetime) else None
        self._before = {name: dict(gate.places) for name, gate in self._keys.items()}
        self.gates = Gates(keys=dict(self._keys))
        self._read_schedules(self.locked)

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
    """Read gates of keys without locking them: what they say may be over when it is used."""
    if not names:
        return {}
    asked = {"names": sorted(names)}
    places = dict.fromkeys(names, "[]")
    places |= {row.name: row.places for row in connection.execute(_PLACES, asked)}
    found = _key_gates(connection, places)
    for name, begins in connection.execute(_ALL_LINES, asked):
        if name in found and isinstance(begins, datetime):
            found[name].line_begins = begins
    return found


def _key_gates(connection: Connection, places: Mapping[str, str | None]) -> dict[str, KeyGate]:
    """Make the gates of keys from the lists of their rows."""
    found = {name: KeyGate(key=key) for name in places if (key := key_of(name)) is not None}
    listed = {name: _places_of(places[name]) for name in found}
    _keep_standing(connection, found, {name: some for name, some in listed.items() if some})
    _add_running(connection, [found[name] for name, some in listed.items() if some is None])
    return found


def _keep_standing(
    connection: Connection, found: Mapping[str, KeyGate], listed: Mapping[str, Places]
) -> None:
    """Keep the places of attempts that run, or are on their way to a worker."""
    ids = sorted({id_ for places in listed.values() for id_ in places})
    if not ids:
        return
    rows = {row.id: row for row in connection.execute(_STANDING, {"ids": ids})}
    for name, places in listed.items():
        for id_, attempt in places.items():
            row = rows.get(id_)
            if row is None or row.attempt != attempt or row.state not in PLACED:
                continue
            found[name].places[id_] = attempt
            if row.state == State.RUNNING:
                found[name].running.add(id_)


def _add_running(connection: Connection, unknown: Sequence[KeyGate]) -> None:
    """Find who runs with keys whose places are not known."""
    of_key = {gate.key: gate for gate in unknown}
    if not of_key:
        return
    for id_, attempt, key in connection.execute(_RUNNING, {"keys": sorted(of_key)}):
        if key in of_key:
            of_key[key].places[id_] = attempt
            of_key[key].running.add(id_)


def read_rules(connection: Connection, scheduler_ids: Collection[int]) -> dict[int, Rules]:
    """Read what schedules say of their runs; people write it by hand.

    Where one is gone, or its limit is nothing that could be meant, the limit is the smallest.
    """
    strictest = Rules(limit=UNREADABLE_LIMIT)
    found = dict.fromkeys(scheduler_ids, strictest)
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
