"""Why a schedule is not kept running by who keeps such schedules."""

from datetime import datetime

import attrs

from cronhare.domain.schedules.by_itself import Disabled, hindrance
from cronhare.ports.schedules import StoredSchedule


@attrs.frozen
class Off:
    """Why it does not run here.

    *until_edited* says that it will not before somebody edits its row; what *is_anothers* is for
    somebody else to keep running.
    """

    why: str
    until_edited: bool = True
    is_anothers: bool = False


def why_off(stored: StoredSchedule | None, *, is_ours: bool, now: datetime) -> Off | None:
    """Say why a schedule does not run here at *now*; None if it does."""
    if stored is None:
        return Off("there is no such schedule")
    draft = stored.draft
    if draft is None:
        return Off(f"its row is broken: {stored.problem}", until_edited=False)
    if not draft.stay_alive:
        return Off("its row has no stay_alive")
    found = hindrance(draft, stored.pause, now=now)
    if found is not None:
        return Off(f"it is {found}", until_edited=isinstance(found, Disabled))
    return None if is_ours else Off("its task is not of this jobs file", is_anothers=True)
