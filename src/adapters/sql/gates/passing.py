"""Who passes a gate, who is held back, and who is let go when there is room."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
from sqlalchemy import Connection, Row, Select, bindparam, delete, select

from cronhare.application.logs import say
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle.gates import (
    Blocked,
    Gates,
    Rules,
    gates_of,
    key_gate,
    key_of,
    place_in_line,
    replace_by,
)
from cronhare.domain.lifecycle.transitions import hold, let_go
from cronhare.domain.schedules.schedule import BrokenSchedule, Schedule
from cronhare.ports.attempts import Busy, Refused, StartAnswer
from cronhare.ports.claims import LetGo
from cronhare.ports.errors import LedgerRefused

from ..cooldown import excluding
from ..database import Database, StorePart, repeatable, repeatable_unless_locked
from ..dialect import Dialect, Locked
from ..isolation import set_broken_apart
from ..rows.changes import Change, write_changes
from ..rows.executions import BY_IDS, executions_of, is_in
from ..schema.tables import executions, gates
from ..schema.types import UtcDateTime
from .rows import GateRows, MissingGates, RecentClaims, make_gates, read_keys, schedule_in

log = logging.getLogger(__name__)

#: So many executions are let go at a gate in one call, or cancelled.
MOST_AT_ONCE: Final = 100

_LINE: Final[Select[Any]] = (
    select(executions.c.id, executions.c.scheduler_id)
    .where(executions.c.held_by == bindparam("gate"), is_in(State.HELD))
    .order_by(executions.c.due_at, executions.c.id)
)
_UNLOCKED: Final = BY_IDS.with_for_update(skip_locked=True)
_OF_SCHEDULE: Final[Select[Any]] = (
    select(executions.c.id)
    .where(
        executions.c.scheduler_id == bindparam("scheduler_id"),
        executions.c.finished_at.is_(None),  # for the index
        executions.c.state.in_(sorted(state.value for state in UNFINISHED)),
    )
    .limit(MOST_AT_ONCE)
)
_OLDEST: Final = _OF_SCHEDULE.order_by(executions.c.due_at, executions.c.id)
_NEWEST: Final = _OF_SCHEDULE.where(executions.c.held_by == bindparam("gate")).order_by(
    executions.c.due_at.desc(), executions.c.id.desc()
)
_GATES: Final = (
    select(executions.c.held_by)
    .where(executions.c.held_by > bindparam("after"), is_in(State.HELD))
    .group_by(executions.c.held_by)
    .order_by(executions.c.held_by)
    .limit(bindparam("limit"))
)


class LettingGo(StorePart):
    """The part of `ClaimStorePort` that lets go what is held back."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._recent_claims = RecentClaims()

    @repeatable
    def gates(self, *, after: str, limit: int) -> Sequence[str]:
        with self._database.read("looking for what is held back") as connection:
            found = connection.scalars(_GATES, {"after": after, "limit": limit}).all()
        return [gate for gate in found if isinstance(gate, str)]

    def let_go(self, gates: Collection[str], *, now: datetime) -> LetGo:
        """See `ClaimStorePort.let_go`: one transaction, or one for each gate after a refusal."""
        asked = sorted(set(gates))
        if not asked:
            return LetGo()
        for _ in range(2):
            try:
                return self._pass(asked, now=now)
            except MissingGates as missing:
                make_gates(self._database, missing.names, now)
            except Locked:
                break
            except LedgerRefused:
                return _joined([self._alone(gate, now) for gate in asked])
        return LetGo(busy=frozenset(asked))

    def _alone(self, gate: str, now: datetime) -> LetGo:
        """Pass over for a while whom the database refuses to let go, so that those behind go on."""
        suspects = list[int]()
        try:
            return self._pass([gate], now=now, most=1, suspects=suspects)
        except (Locked, MissingGates):
            pass
        except LedgerRefused as refusal:
            for id_ in suspects:
                self._database.passed_over.note(id_, now)
                text = f"Execution {id_} cannot be let go or replaced, others go first: {refusal}"
                say(log, logging.ERROR, "execution.refused", text)
        return LetGo(busy=frozenset({gate}))

    @repeatable_unless_locked
    def _pass(
        self,
        asked: Sequence[str],
        *,
        now: datetime,
        most: int = MOST_AT_ONCE,
        suspects: list[int] | None = None,
    ) -> LetGo:
        """Let go, or replace, up to *most* executions at each gate.

        *suspects* is filled with the ids of whom a refusal of the database is about.
        """
        passed_over = self._database.passed_over.at(now)
        line = excluding(_LINE, executions.c.id, passed_over).limit(most)
        with self._database.write("letting go what was held back") as connection:
            recent = self._recent_claims.at(asked, now)
            rows = GateRows(connection, asked, recent=recent)
            lines = {
                gate: found
                for gate in rows.with_room()
                if (found := connection.execute(line, {"gate": gate}).all())
            }
            waiting = [row for found in lines.values() for row in found]
            if suspects is not None:  # reading and locking them may be refused already
                suspects[:] = [row.id for row in waiting]
            rows.read_rules({schedule_in(row.scheduler_id) for row in waiting})
            passing = _Passing(connection, rows, now, most=most, passed_over=passed_over)
            for gate, found in lines.items():
                passing.pass_gate(gate, found)
            if suspects is not None:  # from here on these alone are written
                suspects[:] = [before.id for before, _ in passing.changes]
            write_changes(connection, self._database.dialect, passing.changes)
            rows.write(self._database.dialect, now)
        self._recent_claims.forget(recent.keys() & rows.locked)
        return LetGo(
            executions=tuple(passing.let_go),
            cancelled=tuple(passing.cancelled),
            busy=rows.busy,
        )


def _joined(answers: Sequence[LetGo]) -> LetGo:
    return LetGo(
        executions=tuple(one for each in answers for one in each.executions),
        cancelled=tuple(one for each in answers for one in each.cancelled),
        busy=frozenset[str]().union(*(each.busy for each in answers)),
    )


class _Passing:
    """What passes gates in one transaction."""

    def __init__(
        self,
        connection: Connection,
        rows: GateRows,
        now: datetime,
        *,
        most: int,
        passed_over: Collection[int],
    ) -> None:
        self.changes: list[Change] = []
        self.let_go: list[Execution] = []
        self.cancelled: list[Execution] = []
        self._connection = connection
        self._rows = rows
        self._now = now
        self._most = most
        self._passed_over = passed_over

    def pass_gate(self, gate: str, line: Sequence[Row[Any]]) -> None:
        """Let go those at the head of a line that nothing keeps back."""
        gates = self._rows.gates
        if gates.replaces(gate):
            ids = self._replace(gate, line[0].scheduler_id)
            held = [] if gates.schedules[gate].active else self._locked(ids)
        else:
            held = self._head(gate, line)
        self._rows.read_others({name for one in held for name in gates_of(one)})
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
        gates, ids = self._rows.gates, [row.id for row in line]
        room = gates.room(gate, [schedule_in(row.scheduler_id) for row in line])
        held = self._locked(ids[:room])
        if len(held) == room:
            return held
        held += self._locked(ids[room:])
        return held[: gates.room(gate, [one.scheduler_id for one in held])]

    def _replace(self, gate: str, scheduler_id: int) -> list[int]:
        """Cancel those before the newest that waits; give its id, if it can be had.

        It goes on once none before it is left: one that was would begin after it.
        """
        first = self._ids(_OLDEST, scheduler_id=scheduler_id)
        last = self._ids(_NEWEST, scheduler_id=scheduler_id, gate=gate)
        unfinished = self._locked(sorted({*first, *last}))
        held = [one for one in unfinished if one.held_by == gate]
        if not held:
            return []
        newest = held[-1]
        replaced = replace_by(newest, unfinished, self._now)
        now_replaced = replaced[: self._most]
        self.changes += now_replaced
        self.cancelled += [after for _, after in now_replaced]
        self._rows.gates.cancelled(gate, self.cancelled)
        is_alone = newest.id in first and len(replaced) < self._most
        return [newest.id] if is_alone else []

    def _ids(self, statement: Select[Any], **asked: object) -> Sequence[int]:
        those = excluding(statement, executions.c.id, self._passed_over)
        return self._connection.scalars(those, asked).all()

    def _locked(self, ids: Sequence[int]) -> list[Execution]:
        """Lock executions, in the order of their line. Broken ones are quarantined."""
        if not ids:
            return []
        rows: Any = self._connection.execute(_UNLOCKED, {"ids": list(ids)})
        found = executions_of(self._connection, rows)
        set_broken_apart(self._connection, found, self._now)
        sound = [one for one in found if one.problem is None and one.state in UNFINISHED]
        return sorted(sound, key=place_in_line)


@attrs.frozen(kw_only=True)
class GatedStarts:
    """What passed its gates, what is held back, and what could not be judged now."""

    started: Sequence[Change]
    held: Sequence[Change] = ()
    blocked: Mapping[int, Blocked] = attrs.field(factory=dict[int, Blocked])
    busy: frozenset[int] = frozenset()

    def answer_of(self, answer: StartAnswer) -> StartAnswer:
        """Give what is answered now in the place of a start."""
        if not isinstance(answer, Execution):
            return answer
        if answer.id in self.busy:
            return Busy()
        blocked = self.blocked.get(answer.id)
        return answer if blocked is None else Refused(f"held: {blocked.reason}", gate=blocked.gate)


def pass_gates(
    connection: Connection,
    dialect: Dialect,
    started: Sequence[Change],
    now: datetime,
    without: Collection[str],
) -> GatedStarts:
    """Let starts pass their gates, those first that were due first, and write who has a place.

    Their executions are locked. Gates are locked without waiting; those in *without* count as
    locked by others.

    Raises:
        MissingGates: some have no row.
    """
    free = [change for change in started if not gates_of(change[0])]
    gated = [change for change in started if gates_of(change[0])]
    names = {name for before, _ in gated for name in gates_of(before)}
    rows = GateRows(connection, names.difference(without), lines=True)
    closed = rows.busy.union(without)
    judged = [change for change in gated if closed.isdisjoint(gates_of(change[0]))]
    rows.read_rules({before.scheduler_id for before, _ in judged})
    blocked: dict[int, Blocked] = {}
    for before, _ in sorted(judged, key=lambda change: place_in_line(change[0])):
        if (why := rows.gates.start(before)) is not None:
            blocked[before.id] = why
    rows.write(dialect, now)
    return GatedStarts(
        started=[*free, *(change for change in judged if change[0].id not in blocked)],
        held=[
            (before, hold(before, blocked[before.id].gate))
            for before, _ in judged
            if before.id in blocked
        ],
        blocked=blocked,
        busy=frozenset(before.id for before, _ in gated) - {before.id for before, _ in judged},
    )


#: At the gates of so many schedules is looked again after a claim, in case that there is a place
#: now. The others are left to whoever ends there, and to the reconciler.
MOST_TRIED: Final = 20


def hold_back(
    connection: Connection,
    wanted: Sequence[Execution],
    schedules: Sequence[Schedule | BrokenSchedule],
    recent: RecentClaims,
    now: datetime,
) -> Sequence[Execution]:
    """Hold those back whose keys have no place, in the order of their due times.

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
    gates = Gates(keys=read_keys(connection, names), rules=limits)
    for name, places in recent.at(names, now).items():
        gates.keys[name].places |= places
    return [gates.claim(one) for one in sorted(wanted, key=lambda one: one.due_at)]


def gates_to_try(
    inserted: Sequence[Execution], recent: RecentClaims, now: datetime
) -> tuple[str, ...]:
    """Name the gates that hold some of a batch back: some schedules', and some keys'.

    These are the keys' whose latest claims have no written place yet: whoever lets the next one go
    has to know of them.
    """
    names = dict.fromkeys(one.held_by for one in inserted if one.held_by)
    if not names:
        return ()
    schedules = [name for name in names if key_of(name) is None]
    return (*recent.at(names, now), *schedules[:MOST_TRIED])


#: Who runs with a key for longer is found again once its gate is made anew.
UNUSED_FOR: Final = timedelta(days=1)

_STEP: Final = 1_000

_UNUSED: Final = (
    select(gates.c.name)
    .where(gates.c.used_at < bindparam("limit", type_=UtcDateTime))
    .limit(_STEP)
    .with_for_update(skip_locked=True)
)
_FORGET: Final = delete(gates).where(gates.c.name.in_(bindparam("names", expanding=True)))


def forget_gates(database: Database, now: datetime) -> Iterator[None]:
    """Delete the rows of unused gates, step by step."""
    found = _STEP
    while found == _STEP:
        with database.write("forgetting gates") as connection:
            names = list(connection.scalars(_UNUSED, {"limit": now - UNUSED_FOR}))
            if names:
                connection.execute(_FORGET, {"names": names})
        found = len(names)
        yield
