"""Schedules as people see and edit them: lists, groups of alike ones, and edits row by row."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import attrs
import sqlalchemy as sa
from sqlalchemy import delete

from cronhare.domain.execution import UNFINISHED
from cronhare.domain.messages import LARGEST_ID
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import OWNER_FIELDS
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.inspection import NAMES_TOLD, Late, ScheduleFacts
from cronhare.ports.schedules import (
    MOST_COUNTED,
    KeptByRuns,
    Outdated,
    ScheduleFilter,
    StoredSchedule,
)

from .database import Store, repeatable
from .schedules import STORED, WITH_ID, edited_at, stored
from .tables.executions import display_name, exactly, id_of_display_name, in_states, known_id
from .tables.schedule_columns import TASK_COLUMNS, read_task
from .tables.schedules import (
    HAS_NO_NAME,
    IS_ON,
    IS_USERS,
    PAUSE_OF,
    STAMP,
    STAYS,
    moment_or_long_ago,
    read_retention,
    row_values,
)
from .tables.tables import AWAITS_A_PERSON, IDS, THESE, executions, plans, schedulers

_ROW: Final = schedulers.c
_IDS: Final = sa.select(_ROW.id).where(IS_USERS)
_NAME_OF: Final = sa.select(_ROW.name).where(_ROW.id == sa.bindparam("id"))
_THESE: Final = STORED.where(_ROW.id.in_(IDS))


#: So many executions are deleted in one transaction.
STEP: Final = 1_000

_THIS: Final = schedulers.c.id == sa.bindparam("scheduler_id")
_EDITED_ROW: Final[sa.Select[Any]] = (
    sa.select(schedulers.c.id, schedulers.c.updated_at)
    .where(_THIS, schedulers.c.system_id.is_(None))
    .with_for_update()
)
_RUNS: Final = (
    sa.select(sa.func.count())
    .select_from(executions)
    .where(executions.c.scheduler_id == sa.bindparam("scheduler_id"))
)
#: May still run: it has not ended, or its failure may be replayed.
_UNSETTLED: Final = _RUNS.where(sa.or_(in_states(UNFINISHED), AWAITS_A_PERSON))
_SOME_RUNS: Final = (
    sa.select(executions.c.id)
    .where(executions.c.scheduler_id == sa.bindparam("scheduler_id"))
    .limit(sa.bindparam("most"))
)
_DELETE_RUNS: Final = delete(executions).where(THESE)
_DELETE: Final = delete(schedulers).where(_THIS)


class SqlScheduleLists(Store):
    """Satisfies `ScheduleListPort`. An edit is one transaction."""

    @repeatable
    def page(
        self, which: ScheduleFilter, *, after: str | None = None, limit: int, now: datetime
    ) -> Sequence[StoredSchedule]:
        those = _IDS.where(*_conditions_of(which, now))
        # Nearly none has a part of a text: all are read, and none by way of the index of names.
        name = _ROW.name if which.search is None else sa.func.coalesce(_ROW.name, "")
        with self._database.read("listing schedules") as connection:
            place, nameless = _place(connection, after)
            ids = list[int]()
            if place is not None:
                named = those.where(name > place).order_by(name).limit(limit)
                ids += connection.scalars(named)
            if len(ids) < limit:
                rest = those.where(HAS_NO_NAME, _ROW.id > nameless).order_by(_ROW.id)
                ids += connection.scalars(rest.limit(limit - len(ids)))
            rows = connection.execute(_THESE, {"ids": ids}) if ids else ()
            found = {row.id: stored(row) for row in rows}
        return [found[id_] for id_ in ids if id_ in found]

    @repeatable
    def count(self, which: ScheduleFilter, *, now: datetime) -> int:
        some = _IDS.where(*_conditions_of(which, now)).limit(MOST_COUNTED + 1).subquery()
        with self._database.read("counting schedules") as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0

    @repeatable
    def edit(
        self, scheduler_id: int, draft: ScheduleDraft, *, seen: datetime | None, now: datetime
    ) -> StoredSchedule | Outdated | None:
        with self._database.write(f"editing schedule {scheduler_id}") as connection:
            row = _locked(connection, scheduler_id)
            if row is None:
                return None
            if _is_other(row, seen):
                return Outdated(_read(connection, row.id))
            values = {name: new for name, new in row_values(draft).items() if name != "name"}
            changed = sa.update(schedulers).where(schedulers.c.id == row.id)
            connection.execute(changed.values(**values, updated_at=edited_at(row, now)))
            return _read(connection, row.id)

    def delete(
        self, scheduler_id: int, *, seen: datetime | None, with_history: bool = False
    ) -> StoredSchedule | Outdated | KeptByRuns | None:
        while (answer := self._delete(scheduler_id, seen, with_history=with_history)) == STEP:
            pass
        assert not isinstance(answer, int)
        return answer

    @repeatable
    def _delete(
        self, scheduler_id: int, seen: datetime | None, *, with_history: bool
    ) -> StoredSchedule | Outdated | KeptByRuns | int | None:
        """Delete a row, or as many of its runs as one transaction should; answers their number."""
        with self._database.write(f"deleting schedule {scheduler_id}") as connection:
            row = _locked(connection, scheduler_id)
            if row is None:
                return None
            before = _read(connection, row.id)
            if _is_other(row, seen):
                return Outdated(before)
            asked = {"scheduler_id": row.id}
            if runs := connection.scalar(_UNSETTLED if with_history else _RUNS, asked):
                return KeptByRuns(runs)
            if with_history:
                ids = connection.scalars(_SOME_RUNS, asked | {"most": STEP}).all()
                if ids:
                    connection.execute(_DELETE_RUNS, {"ids": ids})
                if len(ids) == STEP:
                    return STEP
            connection.execute(_DELETE, asked)
            return before


def _conditions_of(which: ScheduleFilter, now: datetime) -> Iterator[sa.ColumnElement[bool]]:
    if which.search is not None:
        columns = (schedulers.c.name, schedulers.c.description)
        yield sa.or_(*(each.icontains(which.search, autoescape=True) for each in columns))
    if which.enabled is not None:
        yield IS_ON if which.enabled else ~IS_ON
    if which.paused is not None:
        # Few are: so that a database begins with these, it is not to join them.
        on = sa.select(plans.c.scheduler_id).where(
            plans.c.paused_at <= now,
            sa.or_(plans.c.paused_until.is_(None), plans.c.paused_until > now),
        )
        yield schedulers.c.id.in_(on) if which.paused else schedulers.c.id.not_in(on)
    if which.source is not None:
        yield exactly(schedulers.c.source, which.source)


def _place(connection: sa.Connection, after: str | None) -> tuple[object | None, int]:
    """Find where a page begins: behind a name, or behind an id of those that have none."""
    id_ = None if after is None else id_of_display_name(after)
    if id_ is None:
        return after or "", -LARGEST_ID
    # A name that cannot be shown, as it is too long, has its place among the others.
    name = connection.scalar(_NAME_OF, {"id": id_})
    return (None, id_) if name in {None, ""} else (name, -LARGEST_ID)


#: So many rows are read one by one: it takes a fifth of a second.
MOST_READ: Final = 2_000

_IS_PLANNED: Final = STAMP.is_not_distinct_from(plans.c.planned_at)
#: Only SQLite keeps what is not of its column's type. No cast makes that equal to itself.
_MISFITS: Final = (
    *(sa.cast(schedulers.c[name], sa.Integer) != schedulers.c[name] for name in OWNER_FIELDS),
    sa.cast(schedulers.c.description, sa.Text) != schedulers.c.description,
)
_APART: Final = sa.case(
    (
        sa.or_(
            ~_IS_PLANNED,
            plans.c.problem.is_not(None),
            plans.c.paused_at.is_not(None),
            HAS_NO_NAME,
            STAYS,
            *_MISFITS,
        ),
        1,
    ),
    else_=0,
)
_JOINED: Final = schedulers.outerjoin(plans, plans.c.scheduler_id == schedulers.c.id)

_ALIKE: Final = (
    *(schedulers.c[name] for name in TASK_COLUMNS),
    *schedulers.c["status", "queue", "retention"],
)
_COUNTED: Final = (
    sa.select(
        *_ALIKE, sa.func.count().label("alike"), sa.func.min(schedulers.c.name).label("first")
    )
    .select_from(_JOINED)
    .where(IS_USERS, _APART == 0)
    .group_by(*_ALIKE)
)
#: In the order of an index: of rows that are alike the first ones are named, as far as they are
#: among the first of all.
_NAMED: Final = (
    sa.select(*_ALIKE, schedulers.c.name)
    .select_from(_JOINED)
    .where(IS_USERS, _APART == 0)
    .order_by(schedulers.c.name)
)

#: What a scheduler found to be broken goes first.
_READ_APART: Final = STORED.where(_APART == 1).order_by(
    sa.case((plans.c.problem.is_not(None), 0), else_=1), schedulers.c.id
)
_UNPLANNED: Final = (
    sa.select(schedulers.c.id, schedulers.c.name, schedulers.c.updated_at)
    .select_from(_JOINED)
    .where(IS_USERS, IS_ON, ~_IS_PLANNED)
)


@attrs.frozen(kw_only=True)
class SchedulesSeen:
    """The schedules by name, and which are on and wait to be planned."""

    schedules: Sequence[ScheduleFacts]
    unplanned: Sequence[Late]


def schedules_seen(connection: sa.Connection) -> SchedulesSeen:
    apart = [stored(row) for row in connection.execute(_READ_APART.limit(MOST_READ))]
    broken = {each.id for each in apart if each.draft is None}
    unplanned = (
        Late(display_name(row.name, row.id), moment_or_long_ago(row.updated_at))
        for row in connection.execute(_UNPLANNED)
        if row.id not in broken
    )
    return SchedulesSeen(
        schedules=sorted([*_alike(connection), *map(_alone, apart)], key=lambda each: each.name),
        unplanned=sorted(unplanned, key=lambda late: late.since),
    )


def _alike(connection: sa.Connection) -> Iterator[ScheduleFacts]:
    names = defaultdict[tuple[Any, ...], list[str]](list)
    for *alike, name in connection.execute(_NAMED.limit(MOST_READ)):
        if len(known := names[tuple(alike)]) < NAMES_TOLD:
            known.append(name)
    for row in connection.execute(_COUNTED):
        first, *others = names.get(tuple(row[: len(_ALIKE)])) or [row.first]
        task = read_task(tuple(row[: len(TASK_COLUMNS)]))
        faults = [*map(str, task.faults), *map(str, read_retention(row.retention)[1])]
        yield ScheduleFacts(
            name=first,
            others=tuple(others),
            count=row.alike,
            task=None if faults else task.ref,
            enabled=bool(row.status),
            queue=row.queue or MAIN_QUEUE,
            problem="; ".join(faults) or None,
            source=task.source or None,
            task_name=task.name,
            topic=task.topic,
        )


def _alone(stored: StoredSchedule) -> ScheduleFacts:
    draft = stored.draft
    if draft is None:
        return ScheduleFacts(name=stored.name, task=None, problem=stored.problem or "unreadable")
    return ScheduleFacts(
        name=stored.name,
        task=draft.task,
        enabled=draft.status,
        queue=draft.runs_on,
        problem=stored.problem,
        source=stored.source or None,
        task_name=draft.task_name,
        topic=draft.topic,
    )


def _locked(connection: sa.Connection, scheduler_id: int) -> sa.Row[Any] | None:
    scheduler_id = known_id(scheduler_id)
    # In this order, as schedulers have it: a plan is theirs while they claim.
    connection.execute(PAUSE_OF.with_for_update(), {"planned_id": scheduler_id}).all()
    return connection.execute(_EDITED_ROW, {"scheduler_id": scheduler_id}).first()


def _is_other(row: sa.Row[Any], seen: datetime | None) -> bool:
    return seen is not None and moment_or_long_ago(row.updated_at) != seen


def _read(connection: sa.Connection, scheduler_id: int) -> StoredSchedule:
    return stored(connection.execute(WITH_ID, {"scheduler_id": scheduler_id}).one())
