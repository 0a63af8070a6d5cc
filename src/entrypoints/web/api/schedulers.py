"""`/schedulers`: the users' table, its rows, and their versions: `ETag` and `If-Match` (RFC 9110).

A version is that of what people edit: a run, or a pause, makes no other one. So an edit is refused
because of another edit alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Self
from uuid import UUID, uuid4

import attrs

from cronhare.application.administration.changing.replays import RequestReused
from cronhare.application.administration.changing.schedules import (
    CannotEdit,
    EditedMeanwhile,
    NameTaken,
)
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.reading import Fault
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.ports.schedules import ScheduleFilter, StoredSchedule

from ..operations import Call, Reply, Resource, administers, reads
from ..problems import Problem
from ..reading import ROWS, Id, Limit, Text, digest_of_object
from .scheduler_bodies import (
    COLUMNS,
    Made,
    NewScheduler,
    SchedulerPatch,
    edit_schedule,
    name_for,
    read_new,
)


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


#: The key is the name of the row: under another one nothing would find what it made.
_NAMED_TWICE: Final = (
    "with an Idempotency-Key the key names the schedule; leave out one of them: a name is taken "
    "once, too (409)"
)


@attrs.frozen(kw_only=True)
class WhichSchedules:
    """Which schedules; `search` is a part of the name or the description."""

    search: Text | None = None
    enabled: bool | None = None
    paused: bool | None = None
    source: Text | None = None
    after: Text | None = None
    limit: Limit = ROWS


@attrs.frozen(kw_only=True)
class HowToDelete:
    """What goes with it."""

    with_history: bool = False


class Schedulers(Resource):
    """Schedules, page by page and one by one."""

    @reads("/schedulers", "a page of schedules, by name", refuses=(404,))
    def list_schedulers(self, query: WhichSchedules) -> Reply[Sequence[SchedulerView]]:
        """List schedules by name; `search` is a part of the name or the description."""
        which = ScheduleFilter(
            search=query.search, enabled=query.enabled, paused=query.paused, source=query.source
        )
        lists = self._container.schedule_views()
        page = lists.page(which, after=query.after, limit=query.limit)
        return Reply([*map(SchedulerView.with_columns, page.schedules)], after=page.after)

    @administers(
        "POST",
        "/schedulers",
        "it was created",
        status=201,
        takes=NewScheduler,
        refuses=(409,),
        needs_body=True,
    )
    def create_scheduler(self, call: Call, key: UUID | None) -> Reply[SchedulerView]:
        """Create a schedule; asked again with the same key, answer the one that was made."""
        if key is not None and call.content.get("name") is not None:
            call.faults.append(Fault("name", _NAMED_TWICE))
        name = name_for(key or uuid4())
        said = None if key is None else digest_of_object(call.content)
        made = None
        if said is not None and not call.faults:
            made = self._made_by(said, name, call)
        if made is None:
            made = self._create(self._draft(call, name), call, said=said)
        return _shown(made, 201, Location=f"/schedulers/{made[0].id}")

    @reads("/schedulers/{scheduler_id}", "the schedule")
    def show_scheduler(self, scheduler_id: Id) -> Reply[SchedulerView]:
        """Show a schedule, with its last and its next run."""
        return _shown((self._container.queries().schedule_with_id(scheduler_id), ()))

    @reads("/schedulers/by-name/{name:path}", "the schedule")
    def show_named_scheduler(self, name: Text) -> Reply[SchedulerView]:
        """Show a schedule by its name."""
        return _shown((self._container.queries().schedule(name), ()))

    @administers(
        "PUT",
        "/schedulers/by-name/{name:path}",
        "it says what the body says, and may have done so before",
        takes=NewScheduler,
        also={201: ("it was created", SchedulerView)},
        refuses=(409, 412),
        needs_body=True,
    )
    def put_scheduler(
        self, name: Text, call: Call, if_match: str | None, if_none_match: str | None
    ) -> Reply[SchedulerView]:
        """Create the schedule of this name, or replace it.

        Asked again it changes nothing. With `If-Match` it only changes what was seen, with
        `If-None-Match: *` it only creates.
        """
        seen = None if if_match is None else read_if_match(if_match)
        wanted = False if if_none_match else True if if_match is not None else None
        if call.content.get("name") not in (None, name):
            call.faults.append(Fault("name", "is another one in the path; leave it out here"))
        draft = self._draft(call, name, name=name)
        put = partial(self._put, draft, must_exist=wanted, seen=seen, call=call)
        try:
            try:
                status, made = put()
            except (NameTaken, NotFound):  # another one made or deleted it meanwhile
                status, made = put()
        except EditedMeanwhile as error:
            raise stale(error, if_match, call.content) from error
        return _shown(made, status, Location=f"/schedulers/{made[0].id}")

    @administers(
        "DELETE",
        "/schedulers/by-name/{name:path}",
        "it was deleted",
        status=204,
        refuses=(400, 409, 412, 428),
    )
    def delete_named_scheduler(
        self, name: Text, query: HowToDelete, call: Call, if_match: str | None
    ) -> Reply[None]:
        """Delete a schedule by its name."""
        found = self._container.queries().schedule(name)
        return self.delete_scheduler(found.id, query, call, if_match)

    @administers(
        "PATCH",
        "/schedulers/{scheduler_id}",
        "it was edited",
        takes=SchedulerPatch,
        refuses=(409, 412, 428),
        needs_body=True,
    )
    def edit_scheduler(
        self, scheduler_id: Id, call: Call, if_match: str | None
    ) -> Reply[SchedulerView]:
        """Change what the body says, if it is still what was seen. The name stays."""
        seen = read_if_match(if_match)
        try:
            return _shown(
                edit_schedule(self._container, scheduler_id, call.content, call, seen=seen)
            )
        except EditedMeanwhile as error:
            raise stale(error, if_match, call.content) from error

    @administers(
        "DELETE",
        "/schedulers/{scheduler_id}",
        "it was deleted",
        status=204,
        refuses=(400, 409, 412, 428),
    )
    def delete_scheduler(
        self, scheduler_id: Id, query: HowToDelete, call: Call, if_match: str | None
    ) -> Reply[None]:
        """Delete a schedule of no jobs file that has no execution, or `with_history` those as well.

        Not while one may still run: it has not ended, or its failure is not resolved.
        """
        seen, editor = read_if_match(if_match), self._container.schedule_editor()
        try:
            editor.delete(
                scheduler_id, seen=seen, actor=call.actor, with_history=query.with_history
            )
        except EditedMeanwhile as error:
            raise stale(error, if_match, None) from error
        return Reply(None)

    def _draft(self, call: Call, instead: str, **fixed: str) -> ScheduleDraft:
        content = {**call.content, **fixed}
        return read_new(content, call.faults, name=instead, container=self._container)

    def _made_by(self, said: str, name: str, call: Call) -> Made | None:
        desk = self._container.schedule_editor()
        id_ = desk.made_by(said, name=name, actor=call.actor)
        return None if id_ is None else (self._container.queries().schedule_with_id(id_), ())

    def _create(self, draft: ScheduleDraft, call: Call, *, said: str | None) -> Made:
        desk = self._container.schedule_editor()
        try:
            id_ = desk.create(draft, request=said, actor=call.actor)
        except NameTaken as error:
            if said is not None:
                raise RequestReused(f"{error}, and not as it is asked for now") from error
            raise
        view = self._container.queries().schedule_with_id(id_)
        # What was made before, and has run, is not told that it will not.
        if view.last_run:
            return view, ()
        return view, self._container.draft_notes().of(draft)

    def _put(
        self, draft: ScheduleDraft, *, must_exist: bool | None, seen: Seen | None, call: Call
    ) -> tuple[int, Made]:
        found = self._container.schedules().schedules([draft.name])
        if found and must_exist is False:
            detail = f"schedule {draft.name} is there: without If-None-Match it is edited"
            raise Problem(HTTPStatus.PRECONDITION_FAILED, detail)
        if found:
            return 200, self._replace(found[0], draft, seen=seen, call=call)
        if must_exist:
            detail = f"there is no schedule {draft.name}: without If-Match it is created"
            raise Problem(HTTPStatus.PRECONDITION_FAILED, detail)
        return 201, self._create(draft, call, said=None)

    def _replace(
        self, found: StoredSchedule, draft: ScheduleDraft, *, seen: Seen | None, call: Call
    ) -> Made:
        if found.source is not None:
            raise CannotEdit(
                f"schedule {found.name} is of {found.source}, which has the last word: edit it "
                f"there, or PATCH /schedulers/{found.id}"
            )
        editor = self._container.schedule_editor()
        notes = self._container.draft_notes().of(draft, before=found.draft)
        return editor.edit(found.id, draft, seen=seen, actor=call.actor), notes


def _shown(made: Made, status: int | None = None, **headers: str) -> Reply[SchedulerView]:
    view, notes = made
    shown = SchedulerView.with_columns(view, notes)
    return Reply(shown, status, headers={"ETag": etag(view), **headers})
