"""The users' table: schedules as drafts and as they are stored, their edits, lists and names."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

import attrs

from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.schedules.conditions import CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import Recurring, Timing
from cronhare.domain.schedules.skips import Idle, Pause
from cronhare.domain.schedules.task import TaskRef


@attrs.frozen(kw_only=True)
class StoredSchedule:
    """A row of the users' table with its plan.

    *draft* is None for a broken row; *problem* then says why, and *text* is its column `schedule`,
    shortened. *source* is the jobs file that the row came from. *pause* is the last one, which may
    be over; *claimed* counts the runs that were due, where the schedule may have but so many.
    *idle* says why nothing is due any more, and since when, once a scheduler has seen it.
    """

    id: int
    name: str
    draft: ScheduleDraft | None
    problem: str | None
    source: str | None
    created_at: datetime
    updated_at: datetime
    next_due_at: datetime | None
    planned: bool
    text: str | None = None
    pause: Pause | None = None
    claimed: int = 0
    idle: Idle | None = None


@attrs.frozen(kw_only=True)
class StoredCalendar:
    """A calendar as it is stored; of a broken one *problem* says why."""

    name: str
    source: str | None
    draft: CalendarDraft | None
    problem: str | None = None


class ScheduleStorePort(Protocol):
    """The schedules that people write."""

    def schedules(self, names: Collection[str] | None = None) -> Sequence[StoredSchedule]:
        """List the users' schedules by name, or `#` and their id; all, if no names are given."""

    def near(self, name: str, *, limit: int) -> Collection[str]:
        """Find names that may be meant by *name*: at most *limit* neighbours in their order."""

    def on_queues(self) -> Mapping[str, int]:
        """Count the enabled schedules of each task queue; what stays alive has one of its own."""

    def staying_alive(self, *, since: datetime | None = None) -> Collection[str]:
        """Name the enabled schedules that stay alive; with *since* those edited after it.

        As rows may commit late, somebody who asks so has to ask for all now and then.
        """

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
        """Create or replace schedules by name, change others: all, or with `LedgerRefused` none.

        Of the *disabled* only the status changes. Numbers of an owner that a draft does not say
        stay. *calendars* are created or replaced, *dropped* ones removed; no schedule is edited by
        that. *on_progress* hears of the schedules as they are written, and from none again if that
        has to be repeated.
        """

    def create(
        self, draft: ScheduleDraft, *, now: datetime, request: str | None = None
    ) -> int | None:
        """Create a schedule of no source; answers its id, None if its name is taken.

        *request* is the digest of what asked for it, kept as long as the schedule is.

        Raises:
            LedgerRefused: the table refuses a value, or takes the name for another's.
        """

    def made_by(self, request: str, *, name: str) -> int | None:
        """Find the id of the schedule of that name, of no source, that this *request* created."""

    def with_id(self, scheduler_id: int) -> StoredSchedule | None:
        """Find a schedule by its id, whatever it is named; not one of the system's own."""

    def switch(self, names: Collection[str], *, on: bool, now: datetime) -> Collection[str]:
        """Enable or disable schedules, broken ones too; answers those whose status changed.

        That is an edit, of the status alone: an enabled one is planned from *now* on.
        """

    def calendars(self, names: Collection[str] | None = None) -> Sequence[StoredCalendar]:
        """List calendars by name; all of them if no names are given."""

    def pause(self, name: str, pause: Pause, *, now: datetime) -> Pause | None:
        """Pause a schedule, as `paused_anew` says, which is no edit; None if it is unknown."""

    def resume(self, name: str, *, now: datetime) -> Pause | None:
        """End a schedule's pause at *now*; answers it as it is then, None if there is none."""


@attrs.frozen(kw_only=True)
class ScheduleFilter:
    """Which schedules are meant; *search* is a part of the name or description, of any case."""

    search: str | None = None
    enabled: bool | None = None
    paused: bool | None = None
    source: str | None = None


@attrs.frozen
class Outdated:
    """The row is no more as it was when the change was thought of: nothing was changed."""

    current: StoredSchedule


@attrs.frozen
class KeptByRuns:
    """The row stays: so many *executions* that are not to be deleted belong to it."""

    executions: int


#: Nobody counts further: people are told that there are more.
MOST_COUNTED: Final = 10_000


class ScheduleListPort(Protocol):
    """Lists the users' schedules in parts; edits and deletes them one by one."""

    def page(
        self, which: ScheduleFilter, *, after: str | None = None, limit: int, now: datetime
    ) -> Sequence[StoredSchedule]:
        """List schedules by name, then those without one by id; from *after* the name of one."""

    def count(self, which: ScheduleFilter, *, now: datetime) -> int:
        """Count the schedules that a filter takes; `MOST_COUNTED` + 1 if there are more."""

    def edit(
        self, scheduler_id: int, draft: ScheduleDraft, *, seen: datetime | None, now: datetime
    ) -> StoredSchedule | Outdated | None:
        """Make a row say what a draft does, its name and source excepted; None if there is none.

        With *seen* only if that is its `updated_at` still: of concurrent callers that have seen the
        same, one edits and the others are answered `Outdated`.

        Raises:
            LedgerRefused: the table refuses a value.
        """

    def delete(
        self, scheduler_id: int, *, seen: datetime | None, with_history: bool = False
    ) -> StoredSchedule | Outdated | KeptByRuns | None:
        """Delete a row that no execution belongs to; answers it as it was. *seen* is as in `edit`.

        *with_history* its executions go first, in several transactions; not if one is unfinished or
        its failure unresolved.
        """


class NamesPort(Protocol):
    """Looks names up."""

    def numbers_of(self, task: str) -> Collection[TaskRef]:
        """Find the numbers that schedules give a task of that name: by the newest of them."""

    def has_task(self, task: str, numbers: Collection[TaskRef]) -> bool:
        """Tell whether a schedule, an execution or a failure is of a task.

        It has that name or is written so (`report 25`), or has no name and one of the *numbers*.
        """

    def has_queue(self, queue: str) -> bool:
        """Tell whether a schedule, an execution that has not ended, or a failure names a queue."""

    def has_type(self, type_: str) -> bool:
        """Tell whether a schedule or a failure is of a task of that type."""

    def sources(self) -> Collection[str]:
        """Name the jobs files that schedules are of."""

    def tasks_near(self, name: str, *, limit: int) -> Collection[str]:
        """Find names of tasks that may be meant by *name*, as `ScheduleStorePort.near` does."""


@attrs.frozen(kw_only=True)
class SameTiming:
    """So many schedules that are due at the same instants, each up to *jitter* later.

    Where their text has an `H`, *hashed* is what was written, and the timing has numbers instead.
    """

    number: int
    timing: Timing
    hashed: str | None = None
    jitter: timedelta = timedelta(0)
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    @property
    def text(self) -> str:
        """What people wrote, with the zone where there is one."""
        if isinstance(self.timing, Recurring):
            return f"{self.hashed or self.timing.expression.text} {self.timing.zone}"
        return str(self.timing)


@attrs.frozen(kw_only=True)
class Timings:
    """What is known of all enabled schedules; *broken* rows are left out."""

    groups: Sequence[SameTiming]
    broken: int = 0
