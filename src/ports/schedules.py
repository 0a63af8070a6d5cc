"""The users' table: schedules as drafts, and as they are stored."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import attrs

from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.schedules.calendars import CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.idle import Idle
from cronhare.domain.schedules.pause import Pause


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
    """A calendar as it is stored. *draft* is None for a broken one; *problem* then says why."""

    name: str
    source: str | None
    draft: CalendarDraft | None
    problem: str | None = None


class ScheduleStorePort(Protocol):
    """The schedules that people write. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_schedule_store_contract.py does not assert is not promised.
    """

    def schedules(self, names: Collection[str] | None = None) -> Sequence[StoredSchedule]:
        """List schedules by name; all of them if no names are given.

        The system's own are left out. A row without a name answers to `#` and its id.
        """
        ...

    def near(self, name: str, *, limit: int) -> Collection[str]:
        """Find names that may be meant by *name*: its neighbours in their order, at most *limit*.

        They are all that there are, if these are no more than half of that.
        """
        ...

    def on_queues(self) -> Mapping[str, int]:
        """Count the enabled schedules of each task queue; what stays alive has one of its own."""
        ...

    def staying_alive(self, *, since: datetime | None = None) -> Collection[str]:
        """Name the enabled schedules that stay alive; no row of theirs is read in full.

        With *since* those alone that were edited after it; as rows may commit late, and be written
        by a clock that is behind, somebody who asks so has to ask for all now and then.
        """
        ...

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
        """Create or replace schedules by name, and change others: all or none.

        One that is refused refuses them all, with `LedgerRefused`: a file is not applied by half.

        *task_names* maps schedules to their tasks' names within their source; that is no edit:
        `updated_at` and the plan stay. Of the *disabled* only the status changes, if it was on.
        Unknown names are left out of both. Numbers of an owner that a draft does not say stay.
        *calendars* are created or replaced as well, *dropped* ones removed; that is no edit of any
        schedule, whose next decision is by them. *on_progress* hears of the schedules as they are
        written, from none to all, and from none again if that has to be repeated.
        """
        ...

    def create(
        self, draft: ScheduleDraft, *, now: datetime, request: str | None = None
    ) -> int | None:
        """Create a schedule of no source; answers its id, None if its name is taken.

        *request* is the digest of what asked for it, kept as long as the schedule is.

        Raises:
            LedgerRefused: the table refuses a value, or takes the name for another's.
        """
        ...

    def made_by(self, request: str | None, *, name: str) -> int | None:
        """Find the schedule of that name, of no source, that was created with this *request*.

        Without one: of which no request is known. Answers its id, whatever became of it since; None
        if there is none.
        """
        ...

    def with_id(self, scheduler_id: int) -> StoredSchedule | None:
        """Find a schedule by its id, whatever it is named; not one of the system's own."""
        ...

    def switch(self, names: Collection[str], *, on: bool, now: datetime) -> Collection[str]:
        """Enable or disable schedules; answers those whose status changed.

        That is an edit, of the status alone: an enabled one is planned from *now* on. A broken row
        is switched as well. Unknown names are left out.
        """
        ...

    def calendars(self, names: Collection[str] | None = None) -> Sequence[StoredCalendar]:
        """List calendars by name; all of them if no names are given."""
        ...

    def pause(self, name: str, pause: Pause, *, now: datetime) -> Pause | None:
        """Pause a schedule, as `paused_anew` says; answers the pause, None if it is unknown.

        That is no edit: `updated_at` and the plan stay. A row that cannot be read is replaced.
        """
        ...

    def resume(self, name: str, *, now: datetime) -> Pause | None:
        """End a schedule's pause at *now*; answers it as it is then, None if there is none.

        A row that cannot be read is removed.
        """
        ...
