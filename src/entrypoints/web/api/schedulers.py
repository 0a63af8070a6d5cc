"""`/schedulers`: the users' table, and its rows."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, TypeAlias
from uuid import uuid4

from fastapi import Header, Request, Response

from cronhare.application.administration.notes import notes_on_schedule
from cronhare.application.administration.repetition import RequestReused
from cronhare.application.administration.schedule_desk import NameTaken
from cronhare.application.administration.schedule_editor import EditedMeanwhile
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.access import Actor, Scope
from cronhare.domain.schedules.draft import Fault, ScheduleDraft
from cronhare.ports.schedule_edits import ScheduleFilter
from cronhare.ports.schedules import StoredSchedule

from ..access import actor_of
from ..asking import Asker
from ..bodies import digest_of_object, read_object
from .answers import as_answer, as_page
from .operations import Operation, operation
from .parameters import ROWS, Id, IdempotencyKey, Limit, Switch, Text, named
from .scheduler_bodies import NewScheduler, name_for, read_new
from .scheduler_patches import SchedulerPatch, read_patch
from .scheduler_views import SchedulerView
from .versions import Seen, etag, read_if_match, stale

#: The key is the name of the row: under another one nothing would find what it made.
_NAMED_TWICE: Final = (
    "with an Idempotency-Key the key names the schedule; leave out one of them: a name is taken "
    "once, too (409)"
)

#: A schedule that was made or edited, and what is noted on it.
Made: TypeAlias = tuple[ScheduleView, Sequence[str]]

#: Told of in the description; `read_if_match` reads it, as there may be several.
IfMatch = Annotated[str | None, Header(description="the ETag that was seen, or *")]


class Schedulers:
    """Schedules, page by page and one by one."""

    def __init__(self, asker: Asker) -> None:
        """See `Asker`."""
        self._asker = asker
        self._container = asker.container

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        yield operation(
            "GET",
            "/schedulers",
            self.list_schedulers,
            scope=Scope.READ,
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
        one = "/schedulers/{scheduler_id}"
        yield operation(
            "GET",
            one,
            self.show_scheduler,
            scope=Scope.READ,
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
        self, request: Request, scheduler_id: Id, if_match: IfMatch = None
    ) -> Response:
        """Delete a schedule that has no execution and is of no jobs file; others are disabled."""
        del if_match
        seen, actor = read_if_match(request), actor_of(request)
        editor = self._container.schedule_editor()
        try:
            await self._asker.ask(lambda: editor.delete(scheduler_id, seen=seen, actor=actor))
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
