"""What people ask for: apply a file, run now, cancel, replay, discard."""

import difflib
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from cronhare.domain.draft import ScheduleDraft
from cronhare.domain.execution import Execution, State
from cronhare.domain.keys import manual_key
from cronhare.domain.params import fault_of_params
from cronhare.ports.records import Archived, RecordsPort
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from .difference import Change, ScheduleChange, difference

#: So many names are listed for somebody who asked for none of them.
MOST_NAMED = 10


class NotFound(LookupError):
    """Something that was asked for by name or number does not exist."""


class CannotRun(ValueError):
    """A manual run that is refused: for its params, or because the schedule's row is broken."""


class Administrator:
    """Changes the ledger on people's behalf; the schedulers and workers notice by themselves."""

    def __init__(
        self,
        *,
        schedules: ScheduleStorePort,
        records: RecordsPort,
        node: str,
        uuid: Callable[[], UUID],
    ) -> None:
        """*uuid* gives the names of manual runs."""
        self._schedules = schedules
        self._records = records
        self._node = node
        self._uuid = uuid

    def compare(
        self, drafts: Sequence[ScheduleDraft], *, source: str
    ) -> tuple[ScheduleChange, ...]:
        """Say what `apply` would change."""
        return difference(drafts, self._schedules.schedules(), source=source)

    def apply(
        self, drafts: Sequence[ScheduleDraft], *, source: str, now: datetime
    ) -> tuple[ScheduleChange, ...]:
        """Make the table as the file says; what is as it should be is not touched."""
        changes = self.compare(drafts, source=source)
        wanted = [
            change.draft
            for change in changes
            if change.draft is not None and change.change in {Change.ADD, Change.CHANGE}
        ]
        gone = [change.name for change in changes if change.change is Change.DISABLE]
        if wanted:
            self._schedules.save(wanted, source=source, now=now)
        if gone:
            self._schedules.disable(gone, now=now)
        return changes

    def schedule(self, name: str) -> StoredSchedule:
        """Find a schedule by its name.

        Raises:
            NotFound: with the names that come close.
        """
        found = self._schedules.schedules([name])
        if found:
            return found[0]
        names = [schedule.name for schedule in self._schedules.schedules()]
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there is {_some_of(names)}"
        raise NotFound(f"there is no schedule {name!r}; {hint}")

    def run_now(self, name: str, *, params: str | None, now: datetime) -> Execution:
        """Begin a manual run; the schedule's next due instant does not move.

        Raises:
            NotFound: there is no such schedule.
            CannotRun: its row is broken, or *params* are too large.
        """
        schedule = self.schedule(name)
        if schedule.draft is None:
            raise CannotRun(
                f"schedule {name!r} cannot be run, its row is broken: {schedule.problem}"
            )
        if params is not None and (fault := fault_of_params(params)) is not None:
            raise CannotRun(f"schedule {name!r} cannot be run with these params: {fault}")
        key = manual_key(self._uuid())
        return self._records.run_now(schedule.id, key=key, params=params, now=now, node=self._node)

    def cancel(self, execution_id: int, *, now: datetime) -> State:
        """Ask for the end of an execution; answers the state that it is in now.

        Raises:
            NotFound: there is no such execution.
        """
        state = self._records.cancel(execution_id, now=now)
        if state is None:
            raise NotFound(f"there is no execution {execution_id}")
        return state

    def archived(self, ids: Collection[int]) -> Sequence[Archived]:
        """Find rows of the archive.

        Raises:
            NotFound: with the ids that do not exist; nothing was changed.
        """
        found = self._records.archive(ids=ids, limit=len(ids))
        missing = sorted(set(ids) - {archived.id for archived in found})
        if missing:
            raise NotFound(f"the archive has no row {', '.join(map(str, missing))}")
        return found

    def replay(
        self, ids: Collection[int], *, now: datetime, apart: timedelta = timedelta(0)
    ) -> Sequence[Execution]:
        """Send failed executions again, each *apart* from the next, with a fresh retry allowance.

        Raises:
            NotFound: one of the ids does not exist; nothing was sent.
        """
        self.archived(ids)
        return self._records.replay(ids, now=now, apart=apart)

    def discard(self, ids: Collection[int], *, note: str, now: datetime) -> int:
        """Resolve failures without a run; they stay in the archive.

        Raises:
            NotFound: one of the ids does not exist; nothing was changed.
        """
        self.archived(ids)
        return self._records.discard(ids, note=note, now=now)


def _some_of(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED]) or "none"
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED} others"
