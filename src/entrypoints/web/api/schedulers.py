"""`/schedulers`: the users' table, and its rows."""

from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeAlias
from uuid import uuid4

from fastapi import Header, Request, Response

from cronhare.application.administration.changing.replays import RequestReused
from cronhare.application.administration.changing.schedules import (
    CannotEdit,
    EditedMeanwhile,
    NameTaken,
)
from cronhare.application.administration.jobs_file.notes import notes_on_schedule
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.access import Actor, Scope
from cronhare.domain.reading import Fault
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.ports.schedules import ScheduleFilter, StoredSchedule

from ..access import actor_of
from ..asking import Asking
from ..bodies import digest_of_object, read_object
from ..problems import Problem
from .operations import (
    ROWS,
    Id,
    IdempotencyKey,
    Limit,
    Name,
    Operation,
    Switch,
    Text,
    as_answer,
    as_page,
    named,
    operation,
)
from .scheduler_bodies import NewScheduler, SchedulerPatch, name_for, read_new, read_patch
from .scheduler_views import SchedulerView, Seen, etag, read_if_match, stale

#: The key is the name of the row: under another one nothing would find what it made.
_NAMED_TWICE: Final = (
    "with an Idempotency-Key the key names the schedule; leave out one of them: a name is taken "
    "once, too (409)"
)

#: A schedule that was made or edited, and what is noted on it.
Made: TypeAlias = tuple[ScheduleView, Sequence[str]]

#: Told of in the description; `read_if_match` reads it, as there may be several.
IfMatch = Annotated[str | None, Header(description="the ETag that was seen, or *")]
IfNoneMatch = Annotated[str | None, Header(pattern=r"^\*$", description="* to create alone")]


class Schedulers(Asking):
    """Schedules, page by page and one by one."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        yield operation(
            "GET",
            "/schedulers",
            self.list_schedulers,
            what="a page of schedules, by name",
            gives=SchedulerView,
            many=True,
            refuses=(404,),
        )
        yield operation(
            "POST",
            "/schedulers",
            self.create_scheduler,
            scope=Scope.ADMIN,
            status=201,
            what="it was created",
            takes=NewScheduler,
            gives=SchedulerView,
            refuses=(409,),
        )
        # Before what has an id in this place; a name in the table may have a slash.
        by_name = "/schedulers/by-name/{name:path}"
        yield operation(
            "GET",
            by_name,
            self.show_named_scheduler,
            what="the schedule",
            gives=SchedulerView,
            refuses=(404,),
        )
        yield operation(
            "PUT",
            by_name,
            self.put_scheduler,
            scope=Scope.ADMIN,
            what="it says what the body says, and may have done so before",
            takes=NewScheduler,
            gives=SchedulerView,
            also={201: ("it was created", SchedulerView)},
            refuses=(404, 409, 412),
        )
        yield operation(
            "DELETE",
            by_name,
            self.delete_named_scheduler,
            scope=Scope.ADMIN,
            status=204,
            what="it was deleted",
            refuses=(400, 404, 409, 412, 428),
        )
        one = "/schedulers/{scheduler_id}"
        yield operation(
            "GET",
            one,
            self.show_scheduler,
            what="the schedule",
            gives=SchedulerView,
            refuses=(404,),
        )
        yield operation(
            "PATCH",
            one,
            self.edit_scheduler,
            scope=Scope.ADMIN,
            what="it was edited",
            takes=SchedulerPatch,
            gives=SchedulerView,
            refuses=(404, 409, 412, 428),
        )
        yield operation(
            "DELETE",
            one,
            self.delete_scheduler,
            scope=Scope.ADMIN,
            status=204,
            what="it was deleted",
            refuses=(400, 404, 409, 412, 428),
        )

    async def list_schedulers(
        self,
        request: Request,
        *,
        search: Text = None,
        enabled: Switch = None,
        paused: Switch = None,
        source: Text = None,
        after: Text = None,
        limit: Limit = ROWS,
    ) -> Response:
        """List schedules by name; `search` is a part of the name or the description."""
        which = ScheduleFilter(search=search, enabled=enabled, paused=paused, source=source)
        lists = self._container.schedule_pages()
        page = await self._asker.ask(lambda: lists.page(which, after=after, limit=limit))
        shown = [*map(SchedulerView.with_columns, page.schedules)]
        return as_page(request, shown, after=page.after)

    async def create_scheduler(
        self, request: Request, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Create a schedule; asked again with the same key, answer the one that was made."""
        faults: list[Fault] = []
        content = await read_object(request, faults)
        if idempotency_key is not None and content.get("name") is not None:
            faults.append(Fault("name", _NAMED_TWICE))
        key, actor = named(request, idempotency_key), actor_of(request)
        name = name_for(key or uuid4())

        def ask() -> Made:
            said = None if key is None else digest_of_object(content)
            if said is not None and not faults:
                made = self._made_by(said, name, actor)
                if made is not None:
                    return made, ()
            draft = read_new(
                content,
                faults,
                name=name,
                catalog=self._container.catalog(),
                policy=self._container.settings().policy,
            )
            return self._create(draft, actor, said=said)

        view, notes = await self._asker.ask(ask)
        return _shown(view, 201, notes=notes, Location=f"/schedulers/{view.id}")

    async def show_scheduler(self, scheduler_id: Id) -> Response:
        """Show a schedule, with its last and its next run."""
        queries = self._container.queries()
        return _shown(await self._asker.ask(lambda: queries.schedule_with_id(scheduler_id)))

    async def show_named_scheduler(self, name: Name) -> Response:
        """Show a schedule by its name."""
        queries = self._container.queries()
        return _shown(await self._asker.ask(lambda: queries.schedule(name)))

    async def put_scheduler(
        self,
        request: Request,
        name: Name,
        if_match: IfMatch = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """Make a schedule with this name and body, or make the one that there is say that alone.

        Asked again it changes nothing. With `If-Match` it only changes what was seen, with
        `If-None-Match: *` it only creates.
        """
        del if_match
        must_exist, actor = "if-match" in request.headers, actor_of(request)
        seen = read_if_match(request) if must_exist else None
        wanted = False if if_none_match else must_exist or None
        faults: list[Fault] = []
        content = await read_object(request, faults)
        if content.get("name") not in (None, name):
            faults.append(Fault("name", "is another one in the path; leave it out here"))

        def ask() -> tuple[int, Made]:
            draft = read_new(
                {**content, "name": name},
                faults,
                name=name,
                catalog=self._container.catalog(),
                policy=self._container.settings().policy,
            )
            put = partial(self._put, draft, must_exist=wanted, seen=seen, actor=actor)
            try:
                return put()
            except (NameTaken, NotFound):  # another one made or deleted it meanwhile
                return put()

        try:
            status, (view, notes) = await self._asker.ask(ask)
        except EditedMeanwhile as error:
            raise stale(error, request, content) from error
        return _shown(view, status, notes=notes, Location=f"/schedulers/{view.id}")

    async def delete_named_scheduler(
        self, request: Request, name: Name, *, if_match: IfMatch = None, with_history: Switch = None
    ) -> Response:
        """Delete a schedule by its name, as by its id."""
        queries = self._container.queries()
        found = await self._asker.ask(lambda: queries.schedule(name))
        return await self.delete_scheduler(
            request, found.id, if_match=if_match, with_history=with_history
        )

    async def edit_scheduler(
        self, request: Request, scheduler_id: Id, if_match: IfMatch = None
    ) -> Response:
        """Change what the body says, if it is still what was seen. The name stays."""
        del if_match
        seen, actor = read_if_match(request), actor_of(request)
        faults: list[Fault] = []
        content = await read_object(request, faults)
        try:
            view, notes = await self._asker.ask(
                lambda: self._edit(scheduler_id, content, faults, seen=seen, actor=actor)
            )
        except EditedMeanwhile as error:
            raise stale(error, request, content) from error
        return _shown(view, notes=notes)

    async def delete_scheduler(
        self,
        request: Request,
        scheduler_id: Id,
        *,
        if_match: IfMatch = None,
        with_history: Switch = None,
    ) -> Response:
        """Delete a schedule of no jobs file that has no execution, or `with_history` those as well.

        Not while one may still run: it has not ended, or its failure is not resolved.
        """
        del if_match
        seen, actor = read_if_match(request), actor_of(request)
        editor, past = self._container.schedule_editor(), bool(with_history)
        try:
            await self._asker.ask(
                lambda: editor.delete(scheduler_id, seen=seen, actor=actor, with_history=past)
            )
        except EditedMeanwhile as error:
            raise stale(error, request, None) from error
        return Response(status_code=204)

    def _made_by(self, said: str, name: str, actor: Actor) -> ScheduleView | None:
        now, desk = self._container.ledger_time().now(), self._container.schedule_desk()
        id_ = desk.made_by(said, name=name, now=now, actor=actor)
        return None if id_ is None else self._container.queries().schedule_with_id(id_)

    def _create(self, draft: ScheduleDraft, actor: Actor, *, said: str | None) -> Made:
        now = self._container.ledger_time().now()
        try:
            id_ = self._container.schedule_desk().create(draft, now=now, request=said, actor=actor)
        except NameTaken as error:
            if said is not None:
                raise RequestReused(f"{error}, and not as it is asked for now") from error
            raise
        view = self._container.queries().schedule_with_id(id_)
        # What was made before, and has run, is not told that it will not.
        if view.last_run:
            return view, ()
        named = self._container.draft_notes().of(draft)
        return view, [*notes_on_schedule(draft, now=now), *named]

    def _put(
        self, draft: ScheduleDraft, *, must_exist: bool | None, seen: Seen | None, actor: Actor
    ) -> tuple[int, Made]:
        found = self._container.schedules().schedules([draft.name])
        if found and must_exist is False:
            detail = f"schedule {draft.name} is there: without If-None-Match it is edited"
            raise Problem(HTTPStatus.PRECONDITION_FAILED, detail)
        if found:
            return 200, self._replace(found[0], draft, seen=seen, actor=actor)
        if must_exist:
            detail = f"there is no schedule {draft.name}: without If-Match it is created"
            raise Problem(HTTPStatus.PRECONDITION_FAILED, detail)
        return 201, self._create(draft, actor, said=None)

    def _replace(
        self, found: StoredSchedule, draft: ScheduleDraft, *, seen: Seen | None, actor: Actor
    ) -> Made:
        if found.source is not None:
            raise CannotEdit(
                f"schedule {found.name} is of {found.source}, which has the last word: edit it "
                f"there, or PATCH /schedulers/{found.id}"
            )
        now, editor = self._container.ledger_time().now(), self._container.schedule_editor()
        named = self._container.draft_notes().of(draft, before=found.draft)
        notes = [*notes_on_schedule(draft, before=found.draft, now=now), *named]
        return editor.edit(found.id, draft, seen=seen, actor=actor), notes

    def _edit(
        self,
        scheduler_id: int,
        content: dict[str, Any],
        faults: list[Fault],
        *,
        seen: Seen | None,
        actor: Actor,
    ) -> Made:
        now, notes = self._container.ledger_time().now(), list[str]()

        def change(stored: StoredSchedule, draft: ScheduleDraft) -> ScheduleDraft:
            new = read_patch(
                content,
                faults,
                stored=stored,
                draft=draft,
                catalog=self._container.catalog(),
                policy=self._container.settings().policy,
            )
            notes[:] = notes_on_schedule(new, before=draft, now=now)
            notes.extend(self._container.draft_notes().of(new, before=draft))
            return new

        editor = self._container.schedule_editor()
        return editor.edit(scheduler_id, change, seen=seen, actor=actor), notes


def _shown(
    view: ScheduleView, status: int = 200, *, notes: Sequence[str] = (), **headers: str
) -> Response:
    shown = SchedulerView.with_columns(view, notes)
    return as_answer(shown, status, ETag=etag(view), **headers)
