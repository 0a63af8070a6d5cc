"""A schedule as the API shows it."""

from collections.abc import Sequence
from typing import Any, Self

import attrs

from cronhare.application.administration.views.schedules import ScheduleView

from .scheduler_bodies import COLUMNS


@attrs.frozen(kw_only=True)
class SchedulerView(ScheduleView):
    """A schedule as `cronhare schedules show --json` has it, and the columns of its task.

    *payload* is what its params are called where it has a topic. *notice* says who else has a word
    on it: the jobs file that it is of. *notes*, of what was made or edited just now, say what is
    allowed there and probably not meant.
    """

    report_id: int | None = None
    worker_id: int | None = None
    reminder_id: int | None = None
    payload: Any = None
    notice: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def with_columns(cls, view: ScheduleView, notes: Sequence[str] = ()) -> Self:
        """Add the columns, and *notes*."""
        task = view.task
        numbers: dict[str, Any] = {
            column: task.id if task is not None and task.type == kind else None
            for column, kind in COLUMNS.items()
        }
        notice = None
        if view.source is not None:
            notice = (
                f"{view.source} has the last word: its next `cronhare apply`, or start of `up`, "
                "makes this schedule as the file says"
            )
        payload = None if view.topic is None else view.params
        shown = attrs.asdict(view, recurse=False)
        return cls(**shown, **numbers, payload=payload, notice=notice, notes=tuple(notes))
