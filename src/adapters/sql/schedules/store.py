"""The users' table."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    Insert,
    Integer,
    Row,
    Select,
    Update,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.schedules.calendars import BrokenCalendar, CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.owner import OWNER_FIELDS
from cronhare.domain.schedules.pause import Pause, paused_anew, resumed
from cronhare.domain.texts.echo import echo, shown
from cronhare.domain.texts.listing import listed
from cronhare.ports.errors import LedgerRefused
from cronhare.ports.schedules import StoredCalendar, StoredSchedule
from cronhare.ports.system import ClockPort

from ..database import Database, repeatable
from ..rows.executions import batches, display_name, id_of_display_name
from ..rows.schedule_columns import LONG_AGO, NUMBER_COLUMNS, RUN_OPTION_COLUMNS, TIME_COLUMNS
from ..rows.schedules import (
    PAUSE_COLUMNS,
    READ,
    STAMP,
    draft_of,
    moment_or_long_ago,
    read_drafts,
    read_idle,
    read_pause,
    row_values,
    save_calendars,
)
from ..schema.tables import calendars, plans, schedulers
from ..schema.types import HandWritten
from .names import ScheduleNames

#: Rows of the users' table, with all that is known of each.
STORED: Select[Any] = (
    select(
        *READ,
        schedulers.c.description,
        *(schedulers.c[name] for name in OWNER_FIELDS),
        schedulers.c.retention,
        schedulers.c.created_at,
        plans.c.next_due_at,
        plans.c.problem,
        plans.c.judged_by,
        plans.c.resume_at,
        plans.c.idle,
        *(plans.c[name] for name in PAUSE_COLUMNS),
        plans.c.claimed,
        STAMP.is_not_distinct_from(plans.c.planned_at).label("is_planned"),
    )
    .select_from(schedulers.outerjoin(plans, plans.c.scheduler_id == schedulers.c.id))
    .where(schedulers.c.system_id.is_(None))
)
_NAMED = or_(
    schedulers.c.name.in_(bindparam("names", expanding=True)),
    schedulers.c.name.is_(None) & schedulers.c.id.in_(bindparam("ids", expanding=True)),
)
_WITH_ID = STORED.where(schedulers.c.id == bindparam("scheduler_id"))
_USERS = select(
    schedulers.c.id, schedulers.c.name, schedulers.c.status, schedulers.c.updated_at
).where(schedulers.c.system_id.is_(None), _NAMED)

_MADE_BY = select(schedulers.c.id).where(
    schedulers.c.name == bindparam("made"),
    schedulers.c.request.is_not_distinct_from(bindparam("request")),
    schedulers.c.source.is_(None),
)

_CALENDARS = select(calendars.c.name, calendars.c.source)

#: What whoever plans a schedule has locked meanwhile.
PLAN_OF = (
    select(*(plans.c[name] for name in PAUSE_COLUMNS))
    .where(plans.c.scheduler_id == bindparam("planned_id"))
    .with_for_update()
)
_PAUSE = update(plans).where(plans.c.scheduler_id == bindparam("planned_id"))

_INSERT = insert(schedulers)
_REPLACE = (
    update(schedulers)
    .where(schedulers.c.id == bindparam("row_id"))
    .values(
        {
            column: bindparam(f"new_{column}", type_=schedulers.c[column].type)
            for column in (
                *NUMBER_COLUMNS,
                "topic",
                *TIME_COLUMNS,
                *RUN_OPTION_COLUMNS,
                "params",
                "description",
                "retention",
                "source",
                "task_name",
                "updated_at",
            )
        }
        # What a draft does not say stays as somebody else has written it.
        | {
            name: func.coalesce(bindparam(f"new_{name}", type_=Integer), schedulers.c[name])
            for name in OWNER_FIELDS
        }
    )
)
_NAME_TASK = (
    update(schedulers)
    .where(schedulers.c.id == bindparam("row_id"))
    # Set to itself: otherwise MySQL would count it as an edit.
    .values(task_name=bindparam("new_name"), updated_at=schedulers.c.updated_at)
)
_SWITCH = (
    update(schedulers)
    .where(schedulers.c.id == bindparam("row_id"))
    .values(
        status=bindparam("new_status", type_=schedulers.c.status.type),
        updated_at=bindparam("at", type_=HandWritten),
    )
)

#: The latest moment: an edit at it cannot be told from the one before.
LATEST = datetime.max.replace(tzinfo=UTC)

#: So many names are asked for in one statement.
_NAMES = 1_000

#: And so many rows are written by one.
_ROWS = 5_000


class SqlScheduleStore(ScheduleNames):
    """Satisfies `ScheduleStorePort`; what reads no row in full is inherited.

    What has a method here is one transaction.
    """

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        super().__init__(Database(engine, clock))
        self._users = _USERS.with_for_update()

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
    def save(
        self,
        drafts: Sequence[ScheduleDraft],
        *,
        source: str | None,
        now: datetime,
        task_names: Mapping[str, str] | None = None,
        disabled: Collection[str] = (),
        calendars: Sequence[CalendarDraft] = (),
        dropped: Collection[str] = (),
        on_progress: OnProgress = unwatched,
    ) -> None:
        # Of two drafts with one name the later one counts.
        by_name = {draft.name: row_values(draft) for draft in drafts}
        task_names = task_names or {}
        with self._database.write("saving schedules") as connection:
            rows = _find(connection, self._users, [*by_name, *task_names, *disabled])
            known = {display_name(row.name, row.id): row for row in rows}
            new = [
                {**values, "source": source, "created_at": now, "updated_at": now}
                for name, values in by_name.items()
                if name not in known
            ]
            if new:
                _refuse_namesakes(connection, self._users, [values["name"] for values in new])
            old = [
                _replacement(known[name], {**values, "source": source}, now)
                for name, values in by_name.items()
                if name in known
            ]
            named = [
                {"row_id": known[name].id, "new_name": task_name}
                for name, task_name in task_names.items()
                if name in known
            ]
            off = [
                _switched(known[name], now, on=False)
                for name in disabled
                if name in known and known[name].status
            ]
            changes = ((_INSERT, new), (_REPLACE, old), (_NAME_TASK, named), (_SWITCH, off))
            _write(connection, changes, on_progress)
            save_calendars(connection, calendars, source=source, dropped=dropped)

    @repeatable
    def create(
        self, draft: ScheduleDraft, *, now: datetime, request: str | None = None
    ) -> int | None:
        made = {"source": None, "request": request, "created_at": now, "updated_at": now}
        values = {**row_values(draft), **made}
        with self._database.write("creating a schedule") as connection:
            found = _find(connection, self._users, [draft.name])
            if any(display_name(row.name, row.id) == draft.name for row in found):
                return None
            _refuse_namesakes(connection, self._users, [draft.name])
            [id_] = connection.execute(_INSERT, values).inserted_primary_key or [None]
            return None if id_ is None else int(id_)

    @repeatable
    def made_by(self, request: str | None, *, name: str) -> int | None:
        with self._database.read("looking for what a request has made") as connection:
            found = connection.scalar(_MADE_BY, {"request": request, "made": name})
        return None if found is None else int(found)

    @repeatable
    def with_id(self, scheduler_id: int) -> StoredSchedule | None:
        if not 0 < scheduler_id <= LARGEST_ID:
            return None
        with self._database.read("looking for a schedule") as connection:
            row = connection.execute(_WITH_ID, {"scheduler_id": scheduler_id}).first()
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
            rows = [row for row in _find(connection, self._users, names) if row.status != on]
            if rows:
                connection.execute(_SWITCH, [_switched(row, now, on=on) for row in rows])
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
    connection: Connection,
    changes: Sequence[tuple[Insert | Update, list[dict[str, Any]]]],
    on_progress: OnProgress,
) -> None:
    """Execute each statement for all of its rows, and tell how many are written."""
    total, done = sum(len(rows) for _, rows in changes), 0
    for statement, rows in changes:
        for part in batches(rows, _ROWS):
            on_progress(done, total)
            connection.execute(statement, part)
            done += len(part)
    on_progress(done, total)


def _find(
    connection: Connection, statement: Select[Any], names: Iterable[str]
) -> Sequence[Row[Any]]:
    rows: list[Row[Any]] = []
    for piece in batches(list(dict.fromkeys(names)), _NAMES):
        ids = [id_ for name in piece if (id_ := id_of_display_name(name)) is not None]
        rows += connection.execute(statement, {"names": piece, "ids": ids})
    return rows


def _refuse_namesakes(
    connection: Connection, statement: Select[Any], names: Collection[str]
) -> None:
    """Refuse new names that the table's unique index takes for names it has.

    It compares by the column's collation: blanks at the end are ignored, in some tables case is.
    """
    rows = _find(connection, statement, names)
    others = [row for row in rows if display_name(row.name, row.id) not in names]
    if not others:
        return
    told = [f"row {row.id} of Scheduler is named {echo(row.name)}" for row in others]
    meant = [name for row in others for name in names if _is_alike(name, row.name)]
    taken_for = f"that for {listed([echo(name) for name in meant])}" if meant else "it for another"
    raise LedgerRefused(
        f"saving schedules: {listed(told)}, and the table takes {taken_for}: rename or delete it. "
        "Nothing was saved"
    )


def _set_pause(
    connection: Connection, name: str, changed: Callable[[Pause | None], Pause | None]
) -> Pause | None:
    """Change a schedule's pause. Only its plan is locked: nobody waits for who edits its row."""
    for row in _find(connection, _USERS, [name]):
        plan = connection.execute(PLAN_OF, {"planned_id": row.id}).first()
        pause = changed(None if plan is None else read_pause(plan))
        if pause is not None:
            said = (pause.since, pause.until, pause.by, pause.reason)
            values = dict(zip(PAUSE_COLUMNS, said, strict=True))
            if plan is None:  # it differs from the row's updated_at: it is planned yet
                values |= {"scheduler_id": row.id, "planned_at": LONG_AGO}
                connection.execute(insert(plans), values)
            else:
                connection.execute(_PAUSE, {**values, "planned_id": row.id})
        return pause
    return None


def _is_alike(name: str, stored: object) -> bool:
    return isinstance(stored, str) and name.rstrip().casefold() == stored.rstrip().casefold()


def _replacement(row: Row[Any], values: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Replace the draft's columns; those that are not ours (user_id …), name and id stay."""
    new = {f"new_{column}": value for column, value in values.items() if column != "name"}
    return {**new, "row_id": row.id, "new_updated_at": edited_at(row, now)}


def _switched(row: Row[Any], now: datetime, *, on: bool) -> dict[str, Any]:
    return {"row_id": row.id, "new_status": on, "at": edited_at(row, now)}


def edited_at(row: Row[Any], now: datetime) -> datetime:
    """Give a later time than the last edit's, or this one would go unnoticed."""
    before = moment_or_long_ago(row.updated_at)
    return now if before >= LATEST else max(now, before + timedelta(microseconds=1))


def stored(row: Row[Any]) -> StoredSchedule:
    """Read a row of `STORED`."""
    draft, problem = draft_of(row)
    planned = bool(row.is_planned)
    return StoredSchedule(
        id=row.id,
        name=display_name(row.name, row.id),
        draft=draft,
        problem=problem or _problem_elsewhere(row),
        source=row.source if isinstance(row.source, str) else None,
        created_at=moment_or_long_ago(row.created_at),
        updated_at=moment_or_long_ago(row.updated_at),
        next_due_at=row.next_due_at if isinstance(row.next_due_at, datetime) else None,
        planned=planned,
        text=shown(row.schedule) if draft is None and isinstance(row.schedule, str) else None,
        pause=read_pause(row),
        claimed=row.claimed or 0,
        idle=read_idle(row),
    )


def _problem_elsewhere(row: Row[Any]) -> str | None:
    """Say why another replica could not plan a row that can be read here."""
    if not row.problem or not row.is_planned:
        return None
    return f"{row.problem} (says {row.judged_by})" if row.judged_by else str(row.problem)


def _stored_calendar(source: object, draft: CalendarDraft | BrokenCalendar) -> StoredCalendar:
    return StoredCalendar(
        name=draft.name,
        source=source if isinstance(source, str) else None,
        draft=None if isinstance(draft, BrokenCalendar) else draft,
        problem=draft.problem if isinstance(draft, BrokenCalendar) else None,
    )
