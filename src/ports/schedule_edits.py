"""Which schedules are meant, and changes of one of them by a person who has seen it."""

from datetime import datetime
from typing import Protocol

import attrs

from cronhare.domain.schedules.draft import ScheduleDraft

from .schedules import StoredSchedule


@attrs.frozen(kw_only=True)
class ScheduleFilter:
    """Which schedules are meant; what is None is not asked for.

    *search* is a part of the name or the description, whatever the case of its letters a-z.
    *enabled* is the status; one is *paused* while a pause is on. *source* is its jobs file.
    """

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


class ScheduleEditsPort(Protocol):
    """Edits and deletes schedules one by one. Every method may raise `LedgerUnavailable`.

    The system's own are no part of it. What tests/integration/test_schedule_edits_contract.py does
    not assert is not promised.
    """

    def edit(
        self, scheduler_id: int, draft: ScheduleDraft, *, seen: datetime | None, now: datetime
    ) -> StoredSchedule | Outdated | None:
        """Make a row say what a draft does, its name and its source excepted; answers it.

        With *seen* only if that is its `updated_at` still: of concurrent callers that have seen the
        same, one edits and the others are answered `Outdated`. None if there is no such row.

        Raises:
            LedgerRefused: the table refuses a value.
        """
        ...

    def delete(
        self, scheduler_id: int, *, seen: datetime | None, with_history: bool = False
    ) -> StoredSchedule | Outdated | KeptByRuns | None:
        """Delete a row that no execution belongs to; answers it as it was. *seen* is as in `edit`.

        Its plan, its pause and its count of runs go with it. *with_history* its executions go
        first, in several transactions; not if one is unfinished or its failure unresolved.
        """
        ...
