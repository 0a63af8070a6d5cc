"""`/schedulers`: the users' table."""

from collections.abc import Iterator
from typing import Final
from uuid import uuid4

from fastapi import Request, Response

from cronhare.application.administration.schedule_desk import NameTaken, RequestReused
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.access import Actor, Scope
from cronhare.domain.schedules.draft import Fault, ScheduleDraft

from ..access import actor_of
from ..asking import Asker
from ..bodies import read_object
from .answers import as_answer
from .operations import Operation, operation
from .parameters import Id, IdempotencyKey, named
from .scheduler_bodies import NewScheduler, SchedulerView, read_new

#: The key is the name of the row: under another one nothing would find what it made.
_NAMED_TWICE: Final = (
    "with an Idempotency-Key the key names the schedule; leave out one of them: a name is taken "
    "once, too (409)"
)


class Schedulers:
    """Schedules, one by one."""

    def __init__(self, asker: Asker) -> None:
        """See `Asker`."""
        self._asker = asker

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
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
        yield operation(
            "GET",
            "/schedulers/{scheduler_id}",
            self.show_scheduler,
            scope=Scope.READ,
            what="the schedule",
            gives=SchedulerView,
            refuses=(404,),
        )

    async def create_scheduler(
        self, request: Request, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Create a schedule; asked again with the same key, answer the one that was made."""
        faults: list[Fault] = []
        content = await read_object(request, faults)
        if idempotency_key is not None and content.get("name") is not None:
            faults.append(Fault("name", _NAMED_TWICE))
        container = self._asker.container
        draft = read_new(
            content,
            faults,
            request=named(request, idempotency_key) or uuid4(),
            catalog=container.catalog(),
            policy=container.settings().policy,
        )
        view = await self._asker.ask(
            lambda: self._create(draft, actor_of(request), again=idempotency_key is not None)
        )
        return as_answer(SchedulerView.with_columns(view), 201, Location=f"/schedulers/{view.id}")

    async def show_scheduler(self, scheduler_id: Id) -> Response:
        """Show a schedule, with its last and its next run."""
        queries = self._asker.container.queries()
        view = await self._asker.ask(lambda: queries.schedule_with_id(scheduler_id))
        return as_answer(SchedulerView.with_columns(view))

    def _create(self, draft: ScheduleDraft, actor: Actor, *, again: bool) -> ScheduleView:
        container = self._asker.container
        now = container.claims().now()
        try:
            id_ = container.schedule_desk().create(draft, now=now, again=again, actor=actor)
        except NameTaken as error:
            if again:
                raise RequestReused(f"{error}, and not as it is asked for now") from error
            raise
        return container.queries().schedule_with_id(id_)
