"""A schedule as the API shows it, and its versions: `ETag` and `If-Match` (RFC 9110).

A version is that of what people edit: a run, or a pause, makes no other one. So an edit is refused
because of another edit alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Self

import attrs

from cronhare.application.administration.changing.schedules import EditedMeanwhile
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.ports.schedules import StoredSchedule

from ..problems import Problem
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


Seen = Callable[[StoredSchedule], bool]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')


def etag(of: ScheduleView | StoredSchedule) -> str:
    return f'"{of.id}-{(of.updated_at - _EPOCH) // _MICROSECOND}"'


def read_if_match(text: str | None) -> Seen | None:
    """Read which versions may be changed, as If-Match says it; None for `*`, which is any.

    Raises:
        Problem: the header is missing, or cannot be read.
    """
    if not (text := (text or "").strip()):
        detail = (
            "say which version you have seen: If-Match with the ETag of its GET, or * to change "
            "whatever is there"
        )
        raise Problem(HTTPStatus.PRECONDITION_REQUIRED, detail)
    if text == "*":
        return None
    tags = [each.strip() for each in text.split(",")]
    if not all(map(_TAG.fullmatch, tags)):
        detail = 'If-Match is to be an ETag such as "16-1764016800123456", several, or *'
        raise Problem(HTTPStatus.BAD_REQUEST, detail)
    return lambda stored: etag(stored) in tags


def stale(error: EditedMeanwhile, tags: str | None, asked: Mapping[str, Any] | None) -> Problem:
    """Show both versions: what was *asked* of the one with these *tags*, and the one there is."""
    yours = {"etag": tags, "changes": asked}
    current = {"etag": etag(error.current), "scheduler": SchedulerView.with_columns(error.current)}
    detail = f"{error}: look at what it says now, then send yours again with that ETag"
    return Problem(
        HTTPStatus.PRECONDITION_FAILED, detail, more={"yours": yours, "current": current}
    )
