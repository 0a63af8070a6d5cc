"""Rows of `Scheduler` as schedules, with their calendars; and what their plans say of them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, cast

import msgspec
import sqlalchemy as sa
from sqlalchemy.types import NullType

from cronhare.domain.reading import Fault, Reads, read_table, read_whole, text_of
from cronhare.domain.schedules.conditions import (
    MOST_WINDOWS,
    BrokenCalendar,
    CalendarDraft,
    FoundCalendar,
    compiled,
    missing,
)
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import standalone_queue
from cronhare.domain.schedules.schedule import LONGEST_NAME, OWNER_FIELDS, BrokenSchedule, Schedule
from cronhare.domain.schedules.skips import Idle, Pause, Why
from cronhare.domain.schedules.task import (
    ClassRetention,
    fault_of_params,
)
from cronhare.domain.texts.printable import echo, shown

from .executions import display_name
from .schedule_columns import (
    LONG_AGO,
    NOWHERE,
    RUN_OPTION_COLUMNS,
    TASK_COLUMNS,
    TIME_COLUMNS,
    ColumnGroup,
    NamedTask,
    column_values,
    decoded,
    given,
    read_named_times,
    read_run_options,
    read_task,
    read_times,
    task_values,
)
from .tables import calendar_windows, calendars, plans, schedulers
from .types import BrokenRow, OwnTable

#: The most characters that are read: ten times a sensible one.
LONGEST_RETENTION: Final = 1_024


#: A row's updated_at exactly as it is: a plan keeps it, to see edits without comparing clocks.
STAMP = sa.type_coerce(schedulers.c.updated_at, NullType())

IS_USERS: Final = schedulers.c.system_id.is_(None)
IS_ON: Final = sa.func.coalesce(schedulers.c.status, 0) != 0
STAYS: Final = sa.func.coalesce(schedulers.c.stay_alive, 0) != 0
HAS_NO_NAME: Final = sa.or_(schedulers.c.name.is_(None), schedulers.c.name == "")

#: These replace the columns of a row that cannot be read at all.
_NO_TIMES = read_times((None,) * len(TIME_COLUMNS))
_NO_OPTIONS = read_run_options((None,) * len(RUN_OPTION_COLUMNS))

# Its task has a source of its own, lest it pass for a task of a jobs file.
_NO_TASK = NamedTask(ref=NOWHERE, source="a row that cannot be read", name=None)

#: The columns that each row begins with that is read here. Not all of them, and read by place: most
#: of a busy minute is spent on reading.
READ = tuple(
    schedulers.c[name]
    for name in (
        "id",
        "name",
        "params",
        "updated_at",
        *TASK_COLUMNS,
        *TIME_COLUMNS,
        *RUN_OPTION_COLUMNS,
    )
)


def select_schedules(planned: sa.FromClause = plans) -> sa.Select[Any]:
    """Begin a statement that selects schedules with their plans, as a batch takes them."""
    return sa.select(
        *READ,
        STAMP.label("stamp"),
        planned.c.scheduler_id.label("planned_id"),
        *planned.c["next_due_at", "resume_at", "problem", "idle"],
        planned.c.paused_at.is_not(None).label("is_paused"),
        STAMP.is_not_distinct_from(planned.c.planned_at).label("is_current"),
    )


_IN_TASK = slice(4, 4 + len(TASK_COLUMNS))
_IN_TIMES = slice(_IN_TASK.stop, _IN_TASK.stop + len(TIME_COLUMNS))
_IN_OPTIONS = slice(_IN_TIMES.stop, len(READ))


def _retention(text: str) -> ClassRetention:
    return read_whole(ClassRetention, decoded(text))


class _Others(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    description: str | None = None
    user_id: int | None = None
    group_id: int | None = None
    language_id: int | None = None
    retention: Annotated[str, text_of(LONGEST_RETENTION), Reads(_retention)] | None = None


def read_retention(value: object) -> tuple[ClassRetention | None, list[Fault]]:
    """Read that column alone, with what is wrong with it."""
    faults = list[Fault]()
    row = read_table(_Others, given(("retention",), (value,)), faults, quote=echo)
    return cast(ClassRetention | None, row.retention), faults


def draft_of(row: sa.Row[Any]) -> tuple[ScheduleDraft | None, str | None]:
    """Read a row as a draft, or say what is wrong with it."""
    times, options, task, params, faults = _read(row)
    columns = _Others.__struct_fields__
    said = given(columns, [getattr(row, column) for column in columns])
    others = read_table(_Others, said, faults, quote=echo)
    if faults:
        return None, _say(faults)
    return ScheduleDraft(
        name=display_name(row.name, row.id),
        task=task.ref,
        task_name=task.name,
        topic=task.topic,
        params=params,
        **msgspec.structs.asdict(others),
        **times.draft,
        **options.draft,
    ), None


def schedule_of(row: sa.Row[Any]) -> Schedule | BrokenSchedule:
    """Read a row as a schedule: as `compile_schedule` does, but faster, for each due one."""
    times, options, task, params, faults = _read(row)
    name = display_name(row.name, row.id)
    if faults:
        changed_at = moment_or_long_ago(row.updated_at)
        return BrokenSchedule(
            id=row.id, name=name, problem=_say(faults), changed_at=changed_at, source=task.source
        )
    how = options.schedule
    if options.draft["stay_alive"]:
        overlap = options.draft["overlap"].alone
        how = {**how, "queue": standalone_queue(name), "overlap": overlap}
    return Schedule(
        id=row.id,
        name=name,
        task=task.ref,
        source=task.source,
        task_name=task.name,
        topic=task.topic,
        changed_at=row.updated_at,
        params=params,
        **times.schedule,
        **how,
    )


def row_values(draft: ScheduleDraft) -> dict[str, Any]:
    """Write a draft as the columns of its row."""
    kept = draft.retention and msgspec.json.encode(draft.retention.written()).decode()
    return {
        **task_values(draft),
        "task_name": draft.task_name,
        "name": draft.name,
        "params": draft.params,
        "description": draft.description,
        **{name: getattr(draft, name) for name in OWNER_FIELDS},
        "retention": kept,
        **column_values(draft),
    }


def moment_or_long_ago(value: object) -> datetime:
    """Give a moment; `LONG_AGO` for what is none."""
    return value if isinstance(value, datetime) else LONG_AGO


def _read(row: sa.Row[Any]) -> tuple[ColumnGroup, ColumnGroup, NamedTask, str, list[Fault]]:
    """Read a row, whatever is in it.

    An unforeseen error is a fault of that row as well, or it would stop all others.
    """
    try:
        times, options = read_times(row[_IN_TIMES]), read_run_options(row[_IN_OPTIONS])
        if times.named:
            times = read_named_times((display_name(row.name, row.id), *row[_IN_TIMES]))
        task = read_task(row[_IN_TASK])
        faults = [*times.faults, *options.faults, *task.faults]
        params, name = row.params, row.name
        if params is None:
            params = "{}"
        elif (problem := _fault_of_params(params)) is not None:
            faults.append(Fault("params", problem))
        if name is not None and not (isinstance(name, str) and len(name) <= LONGEST_NAME):
            text = f"{echo(name)} is not text of at most {LONGEST_NAME} letters"
            faults.append(Fault("name", text))
        if not isinstance(row.updated_at, datetime):
            faults.append(Fault("updated_at", f"{echo(row.updated_at)} is not a time"))
    except Exception as error:  # noqa: BLE001 - see above
        unforeseen = Fault("row", f"cannot be read: {type(error).__name__}: {shown(str(error))}")
        return _NO_TIMES, _NO_OPTIONS, _NO_TASK, "{}", [unforeseen]
    return times, options, task, params, faults


def _say(faults: Sequence[Fault]) -> str:
    return "; ".join(map(str, faults))


def _fault_of_params(value: object) -> str | None:
    if not isinstance(value, str):
        return f"{echo(value)} is not JSON text"
    try:
        if (problem := fault_of_params(value)) is None:
            decoded(value)
    except ValueError as error:
        return str(error)
    return problem


PLAN: Final = OwnTable(plans, planned_at=Any)
CALENDAR: Final = OwnTable(calendars)
WINDOW: Final = OwnTable(calendar_windows)

_NAMES: Final[sa.BindParameter[Any]] = sa.bindparam("names", expanding=True)

_CALENDARS: Final = sa.select(calendars).where(calendars.c.name.in_(_NAMES))
_COUNTS: Final = (
    sa.select(calendar_windows.c.calendar, sa.func.count().label("windows"))
    .where(calendar_windows.c.calendar.in_(_NAMES))
    .group_by(calendar_windows.c.calendar)
)
_WINDOWS: Final = (
    sa.select(calendar_windows)
    .where(calendar_windows.c.calendar.in_(_NAMES))
    .order_by(calendar_windows.c.id)
)
_REMOVE: Final = sa.delete(calendars).where(calendars.c.name.in_(_NAMES))
_EMPTY: Final = sa.delete(calendar_windows).where(calendar_windows.c.calendar.in_(_NAMES))


def find_calendars(
    connection: sa.Connection, names: Collection[str]
) -> Mapping[str, FoundCalendar]:
    """Find calendars by name; what is missing or broken says so."""
    if not names:
        return {}
    drafts = read_drafts(connection, names)
    found = {name: drafts.get(name) or missing(name) for name in names}
    return {
        name: draft if isinstance(draft, BrokenCalendar) else compiled(draft)
        for name, draft in found.items()
    }


def read_drafts(
    connection: sa.Connection, names: Collection[str]
) -> Mapping[str, CalendarDraft | BrokenCalendar]:
    """Read calendars as they were written; those that are missing are left out."""
    asked = {"names": list(names)}
    rows = {row.name: row for row in connection.execute(_CALENDARS, asked)}
    counts = {row.calendar: row.windows for row in connection.execute(_COUNTS, asked)}
    large = {name for name, count in counts.items() if count > MOST_WINDOWS}
    sound = [name for name in rows if name not in large]
    windows = defaultdict[str, list[sa.Row[Any]]](list)
    for window in connection.execute(_WINDOWS, {"names": sound}) if sound else ():
        windows[window.calendar].append(window)
    too_large = f"it has more than {MOST_WINDOWS:,} windows, which one may"
    return {
        name: BrokenCalendar(name, too_large) if name in large else _draft(row, windows[name])
        for name, row in rows.items()
        if isinstance(name, str)
    }


def save_calendars(
    connection: sa.Connection,
    drafts: Sequence[CalendarDraft],
    *,
    source: str | None,
    dropped: Collection[str],
) -> None:
    gone = {"names": [*(draft.name for draft in drafts), *dropped]}
    if not gone["names"]:
        return
    connection.execute(_EMPTY, gone)
    connection.execute(_REMOVE, gone)
    rows = [{"name": draft.name, "timezone": draft.timezone, "source": source} for draft in drafts]
    if rows:
        connection.execute(sa.insert(calendars), rows)
    within = [
        {"calendar": draft.name, "during": text, "label": label}
        for draft in drafts
        for text, label in draft.windows
    ]
    if within:
        connection.execute(sa.insert(calendar_windows), within)


def _draft(row: sa.Row[Any], windows: Sequence[sa.Row[Any]]) -> CalendarDraft | BrokenCalendar:
    read = [*CALENDAR.each([row]), *WINDOW.each(windows)]
    for each in read:
        if isinstance(each, BrokenRow):
            return BrokenCalendar(row.name, each.why)
    calendar, *within = read
    texts = tuple((window.during, window.label) for window in within)
    return CalendarDraft(name=calendar.name, timezone=calendar.timezone, windows=texts)


def read_idle(row: sa.Row[Any]) -> Idle | None:
    if row.idle is None or row.next_due_at is not None or row.resume_at is None:
        return None
    return Idle(why=Why(row.idle), since=row.resume_at)


PAUSE_COLUMNS: Final = ("paused_at", "paused_until", "paused_by", "pause_reason")
_PLANNED: Final = plans.c.scheduler_id == sa.bindparam("planned_id")
#: The pause of a schedule; whoever plans it has that row locked meanwhile.
PAUSE_OF: Final = sa.select(*(plans.c[name] for name in PAUSE_COLUMNS)).where(_PLANNED)
SET_PAUSE: Final = sa.update(plans).where(_PLANNED)


def pause_values(pause: Pause) -> dict[str, object]:
    said = (pause.since, pause.until, pause.by, pause.reason)
    return dict(zip(PAUSE_COLUMNS, said, strict=True))


def read_pause(row: sa.Row[Any]) -> Pause | None:
    if row.paused_at is None:
        return None
    return Pause(
        since=row.paused_at, until=row.paused_until, by=row.paused_by, reason=row.pause_reason
    )
