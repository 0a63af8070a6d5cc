"""The users' table."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.schedules.conditions import BrokenCalendar, CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import standalone_queue
from cronhare.domain.schedules.schedule import OWNER_FIELDS
from cronhare.domain.schedules.skips import Pause, paused_anew, resumed
from cronhare.domain.texts.printable import echo, shown
from cronhare.domain.texts.words import listed
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports import LedgerRefused
from cronhare.ports.schedules import StoredCalendar, StoredSchedule

from .database import Store, repeatable
from .tables.executions import batches, display_name, id_of_display_name, known_id, rows_near
from .tables.schedule_columns import LONG_AGO
from .tables.schedules import (
    HAS_NO_NAME,
    IS_ON,
    IS_USERS,
    PAUSE_COLUMNS,
    PAUSE_OF,
    READ,
    SET_PAUSE,
    STAMP,
    STAYS,
    draft_of,
    moment_or_long_ago,
    pause_values,
    read_drafts,
    read_idle,
    read_pause,
    row_values,
    save_calendars,
)
from .tables.tables import IDS, calendars, plans, schedulers
from .tables.types import HandWritten

#: Rows of the users' table, with all that is known of each.
STORED: sa.Select[Any] = (
    sa.select(
        *READ,
        schedulers.c.description,
        *(schedulers.c[name] for name in OWNER_FIELDS),
        schedulers.c.retention,
        schedulers.c.created_at,
        *plans.c["next_due_at", "problem", "judged_by", "resume_at", "idle"],
        *(plans.c[name] for name in PAUSE_COLUMNS),
        plans.c.claimed,
        STAMP.is_not_distinct_from(plans.c.planned_at).label("is_planned"),
    )
    .select_from(schedulers.outerjoin(plans, plans.c.scheduler_id == schedulers.c.id))
    .where(IS_USERS)
)
_NAMED = sa.or_(
    schedulers.c.name.in_(sa.bindparam("names", expanding=True)),
    schedulers.c.name.is_(None) & schedulers.c.id.in_(IDS),
)
WITH_ID = STORED.where(schedulers.c.id == sa.bindparam("scheduler_id"))
_USERS = sa.select(
    schedulers.c.id, schedulers.c.name, schedulers.c.status, schedulers.c.updated_at
).where(IS_USERS, _NAMED)
_FOR_UPDATE = _USERS.with_for_update()

_MADE_BY = sa.select(schedulers.c.id).where(
    schedulers.c.name == sa.bindparam("made"),
    schedulers.c.request == sa.bindparam("request"),
    schedulers.c.source.is_(None),
)

_CALENDARS = sa.select(calendars.c.name, calendars.c.source)

_LISTED = sa.select(schedulers.c.name, schedulers.c.id).where(IS_USERS, schedulers.c.name > "")
_NAMELESS = sa.select(schedulers.c.id).where(IS_USERS, HAS_NO_NAME).order_by(schedulers.c.id)
_ON_QUEUES = (
    sa.select(schedulers.c.queue, sa.func.count())
    .where(IS_USERS, IS_ON, ~STAYS)
    .group_by(schedulers.c.queue)
)
#: Their names are asked for apart: so this is read from an index alone, as is the one above.
_ALIVE = sa.select(schedulers.c.id).where(IS_USERS, IS_ON, STAYS)
_EDITED = schedulers.c.updated_at > sa.bindparam("since", type_=HandWritten)
_NAMES_OF = sa.select(schedulers.c.id, schedulers.c.name).where(schedulers.c.id.in_(IDS))

_INSERT = sa.insert(schedulers)
#: It sets the columns that are among its parameters.
_CHANGE = sa.update(schedulers).where(schedulers.c.id == sa.bindparam("row_id"))
#: What a draft does not say of its owner stays as somebody else has written it.
_OWNER = {name: f"new_{name}" for name in OWNER_FIELDS}
_REPLACE = _CHANGE.values(
    {
        name: sa.func.coalesce(sa.bindparam(new, type_=sa.Integer), schedulers.c[name])
        for name, new in _OWNER.items()
    }
)
#: Its time of change is set to itself: otherwise MySQL would count it as an edit.

#: So many names are asked for in one statement.
_NAMES = 1_000

#: And so many rows are written by one.
_ROWS = 5_000


class SqlScheduleStore(Store):
    """Satisfies `ScheduleStorePort`; each method is one transaction."""

    @repeatable
    def schedules(self, names: Collection[str] | None = None) -> Sequence[StoredSchedule]:
        with self._database.read("listing schedules") as connection:
            if names is None:
                found = connection.execute(STORED).all()
            else:
                found = _find(connection, STORED.where(_NAMED), names)
        # Some databases find a name without the blanks at the end of what is asked, too.
        wanted = None if names is None else frozenset(names)
        asked = (one for one in map(stored, found) if wanted is None or one.name in wanted)
        return sorted(asked, key=lambda each: each.name)

    @repeatable
    def near(self, name: str, *, limit: int) -> Collection[str]:
        half = limit // 2
        with self._database.read("looking for names") as connection:
            near = rows_near(connection, _LISTED, schedulers.c.name, name, half)
            found = [display_name(name, id_) for name, id_ in near]
            if len(found) < half:  # there are few schedules
                nameless = connection.scalars(_NAMELESS.limit(half))
                found += [display_name(None, id_) for id_ in nameless]
        return found

    @repeatable
    def on_queues(self) -> Mapping[str, int]:
        counted = Counter[str]()
        with self._database.read("counting the schedules of queues") as connection:
            for queue, number in connection.execute(_ON_QUEUES):
                counted[queue if isinstance(queue, str) and queue else MAIN_QUEUE] += number
            counted.update(map(standalone_queue, _names_of(connection, _ALIVE, {})))
        return counted

    @repeatable
    def staying_alive(self, *, since: datetime | None = None) -> Collection[str]:
        with self._database.read("looking for what stays alive") as connection:
            if since is None:
                return _names_of(connection, _ALIVE, {})
            # By the index of the times of edits.
            return _names_of(connection, _ALIVE.where(_EDITED), {"since": since})

    @repeatable
    def save(
        self,
        drafts: Sequence[ScheduleDraft],
        *,
        source: str | None,
        now: datetime,
        disabled: Collection[str] = (),
        calendars: Sequence[CalendarDraft] = (),
        dropped: Collection[str] = (),
        on_progress: OnProgress = unwatched,
    ) -> None:
        # Of two drafts with one name the later one counts.
        by_name = {draft.name: row_values(draft) for draft in drafts}
        with self._database.write("saving schedules") as connection:
            rows = _find(connection, _FOR_UPDATE, [*by_name, *disabled])
            known = {display_name(row.name, row.id): row for row in rows}
            new = [
                {**values, "source": source, "created_at": now, "updated_at": now}
                for name, values in by_name.items()
                if name not in known
            ]
            if new:
                _refuse_namesakes(rows, {*by_name, *disabled})
            old = [
                {
                    **{_OWNER.get(part, part): values[part] for part in values.keys() - {"name"}},
                    **_changed(known[name], now, source=source),
                }
                for name, values in by_name.items()
                if name in known
            ]
            off = [
                _changed(known[name], now, status=False)
                for name in disabled
                if name in known and known[name].status
            ]
            changes = ((_INSERT, new), (_REPLACE, old), (_CHANGE, off))
            _write(connection, changes, on_progress)
            save_calendars(connection, calendars, source=source, dropped=dropped)

    @repeatable
    def create(
        self, draft: ScheduleDraft, *, now: datetime, request: str | None = None
    ) -> int | None:
        made = {"source": None, "request": request, "created_at": now, "updated_at": now}
        values = {**row_values(draft), **made}
        with self._database.write("creating a schedule") as connection:
            found = _find(connection, _FOR_UPDATE, [draft.name])
            if any(display_name(row.name, row.id) == draft.name for row in found):
                return None
            _refuse_namesakes(found, [draft.name])
            [id_] = connection.execute(_INSERT, values).inserted_primary_key or [None]
            return None if id_ is None else int(id_)

    @repeatable
    def made_by(self, request: str, *, name: str) -> int | None:
        with self._database.read("looking for what a request has made") as connection:
            found = connection.scalar(_MADE_BY, {"request": request, "made": name})
        return None if found is None else int(found)

    @repeatable
    def with_id(self, scheduler_id: int) -> StoredSchedule | None:
        with self._database.read("looking for a schedule") as connection:
            row = connection.execute(WITH_ID, {"scheduler_id": known_id(scheduler_id)}).first()
        return None if row is None else stored(row)

    @repeatable
    def calendars(self, names: Collection[str] | None = None) -> Sequence[StoredCalendar]:
        with self._database.read("listing calendars") as connection:
            sources = {row.name: row.source for row in connection.execute(_CALENDARS)}
            wanted = [name for name in sources if isinstance(name, str)]
            wanted = [name for name in wanted if names is None or name in names]
            drafts = read_drafts(connection, wanted)
        return [_stored_calendar(sources[name], drafts[name]) for name in sorted(drafts)]

    @repeatable
    def switch(self, names: Collection[str], *, on: bool, now: datetime) -> Collection[str]:
        with self._database.write("switching schedules") as connection:
            rows = [row for row in _find(connection, _FOR_UPDATE, names) if row.status != on]
            if rows:
                connection.execute(_CHANGE, [_changed(row, now, status=on) for row in rows])
            return [display_name(row.name, row.id) for row in rows]

    @repeatable
    def pause(self, name: str, pause: Pause, *, now: datetime) -> Pause | None:
        with self._database.write(f"pausing schedule {shown(name)}") as connection:
            return _set_pause(connection, name, lambda old: paused_anew(pause, old, now=now))

    @repeatable
    def resume(self, name: str, *, now: datetime) -> Pause | None:
        with self._database.write(f"resuming schedule {shown(name)}") as connection:
            return _set_pause(connection, name, lambda old: old and resumed(old, now=now))


def _write(
    connection: sa.Connection,
    changes: Sequence[tuple[sa.Insert | sa.Update, list[dict[str, Any]]]],
    on_progress: OnProgress,
) -> None:
    total, done = sum(len(rows) for _, rows in changes), 0
    for statement, rows in changes:
        for part in batches(rows, _ROWS):
            on_progress(done, total)
            connection.execute(statement, part)
            done += len(part)
    on_progress(done, total)


def _find(
    connection: sa.Connection, statement: sa.Select[Any], names: Iterable[str]
) -> Sequence[sa.Row[Any]]:
    rows: list[sa.Row[Any]] = []
    for piece in batches(list(dict.fromkeys(names)), _NAMES):
        ids = [id_ for name in piece if (id_ := id_of_display_name(name)) is not None]
        rows += connection.execute(statement, {"names": piece, "ids": ids})
    return rows


def _names_of(
    connection: sa.Connection, ids: sa.Select[Any], asked: Mapping[str, Any]
) -> list[str]:
    return [
        display_name(name, id_)
        for part in batches(connection.scalars(ids, asked).all(), _NAMES)
        for id_, name in connection.execute(_NAMES_OF, {"ids": part})
    ]


def _refuse_namesakes(found: Iterable[sa.Row[Any]], names: Collection[str]) -> None:
    """Refuse names that the table's unique index takes for names it has.

    It compares by the column's collation: blanks at the end are ignored, in some tables case is.
    """
    told = [
        f"row {row.id} of Scheduler is named {echo(row.name)}"
        for row in found
        if display_name(row.name, row.id) not in names
    ]
    if told:
        raise LedgerRefused(
            f"saving schedules: {listed(told)}, and the table takes that for the name of a new "
            "schedule: rename or delete it. Nothing was saved"
        )


def _set_pause(
    connection: sa.Connection, name: str, changed: Callable[[Pause | None], Pause | None]
) -> Pause | None:
    """Change a schedule's pause. Only its plan is locked: nobody waits for who edits its row."""
    for row in _find(connection, _USERS, [name]):
        plan = connection.execute(PAUSE_OF.with_for_update(), {"planned_id": row.id}).first()
        pause = changed(None if plan is None else read_pause(plan))
        if pause is not None:
            values = pause_values(pause)
            if plan is None:  # it differs from the row's updated_at: it is planned yet
                values |= {"scheduler_id": row.id, "planned_at": LONG_AGO}
                connection.execute(sa.insert(plans), values)
            else:
                connection.execute(SET_PAUSE, {**values, "planned_id": row.id})
        return pause
    return None


def _changed(row: sa.Row[Any], now: datetime, **values: Any) -> dict[str, Any]:  # noqa: ANN401
    return {**values, "row_id": row.id, "updated_at": edited_at(row, now)}


def edited_at(row: sa.Row[Any], now: datetime) -> datetime:
    """Give a later time than the last edit's, or this one would go unnoticed."""
    try:
        return max(now, moment_or_long_ago(row.updated_at) + timedelta(microseconds=1))
    except OverflowError:  # there is none
        return now


def stored(row: sa.Row[Any]) -> StoredSchedule:
    draft, problem = draft_of(row)
    if problem is None and row.problem and row.is_planned:  # of a replica that could not plan it
        problem = f"{row.problem} (says {row.judged_by})" if row.judged_by else row.problem
    return StoredSchedule(
        id=row.id,
        name=display_name(row.name, row.id),
        draft=draft,
        problem=problem,
        source=row.source if isinstance(row.source, str) else None,
        created_at=moment_or_long_ago(row.created_at),
        updated_at=moment_or_long_ago(row.updated_at),
        next_due_at=row.next_due_at,
        planned=bool(row.is_planned),
        text=shown(row.schedule) if draft is None and isinstance(row.schedule, str) else None,
        pause=read_pause(row),
        claimed=row.claimed or 0,
        idle=read_idle(row),
    )


def _stored_calendar(source: object, draft: CalendarDraft | BrokenCalendar) -> StoredCalendar:
    return StoredCalendar(
        name=draft.name,
        source=source if isinstance(source, str) else None,
        draft=None if isinstance(draft, BrokenCalendar) else draft,
        problem=draft.problem if isinstance(draft, BrokenCalendar) else None,
    )
