"""`/schedulers/{id}/pause` and the like: whether a schedule is due."""

from collections.abc import Callable, Iterator

import attrs
from fastapi import Request, Response

from cronhare.adapters.jobs.fields import read_moment
from cronhare.application.administration.views.schedules import ScheduleView
from cronhare.domain.access import Actor, Scope
from cronhare.domain.cron import find_zone
from cronhare.domain.reading import Fault

from ..access import actor_of
from ..asking import Asking
from ..problems import invalid_request
from .answers import as_answer
from .body import read_body
from .operations import Endpoint, Operation, operation
from .parameters import Id
from .scheduler_views import SchedulerView, etag


@attrs.frozen(kw_only=True)
class PauseRequest:
    """Why, and until when: a moment without an offset is wall time in the schedule's zone.

    Without an end it lasts until a resume.
    """

    reason: str | None = None
    until: str | None = None


@attrs.frozen(kw_only=True)
class Nothing:
    """There is nothing to say."""


class SchedulerSwitches(Asking):
    """Pauses and resumes, enables and disables."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        # Whoever enables or disables edits the row; a pause is no edit.
        takes: dict[str, tuple[Endpoint, type[attrs.AttrsInstance], Scope]] = {
            "pause": (self.pause_scheduler, PauseRequest, Scope.OPERATE),
            "resume": (self.resume_scheduler, Nothing, Scope.OPERATE),
            "enable": (self.enable_scheduler, Nothing, Scope.ADMIN),
            "disable": (self.disable_scheduler, Nothing, Scope.ADMIN),
        }
        for action, (endpoint, body, scope) in takes.items():
            yield operation(
                "POST",
                f"/schedulers/{{scheduler_id}}/{action}",
                endpoint,
                scope=scope,
                what="the schedule, as it is now",
                takes=body,
                may_be_empty=True,
                gives=SchedulerView,
                refuses=(404,),
            )

    async def pause_scheduler(self, request: Request, scheduler_id: Id) -> Response:
        """Let no due instant run until a time, or until a resume; each is recorded as skipped."""
        body, _ = await read_body(PauseRequest, request)
        actor = actor_of(request)

        def pause(view: ScheduleView) -> None:
            now, faults = self._container.ledger_time().now(), list[Fault]()
            zone = find_zone(view.timezone or "UTC")
            until = read_moment("until", body.until, zone, faults)
            if faults:
                raise invalid_request(faults)
            administrator = self._container.administrator()
            administrator.pause(
                {view.name: until}, reason=body.reason, by=actor.name, now=now, actor=actor
            )

        return await self._change(scheduler_id, pause)

    async def resume_scheduler(self, request: Request, scheduler_id: Id) -> Response:
        """End a pause. What was due meanwhile is not run: a backfill does that."""
        await read_body(Nothing, request)
        actor = actor_of(request)

        def resume(view: ScheduleView) -> None:
            now = self._container.ledger_time().now()
            self._container.administrator().resume([view.name], now=now, actor=actor)

        return await self._change(scheduler_id, resume)

    async def enable_scheduler(self, request: Request, scheduler_id: Id) -> Response:
        """Let it be due again, from now on."""
        await read_body(Nothing, request)
        actor = actor_of(request)
        return await self._change(scheduler_id, lambda view: self._switch(view, actor, on=True))

    async def disable_scheduler(self, request: Request, scheduler_id: Id) -> Response:
        """Let no instant be due until it is enabled; what runs goes on."""
        await read_body(Nothing, request)
        actor = actor_of(request)
        return await self._change(scheduler_id, lambda view: self._switch(view, actor, on=False))

    def _switch(self, view: ScheduleView, actor: Actor, *, on: bool) -> None:
        now = self._container.ledger_time().now()
        self._container.administrator().switch([view.name], on=on, now=now, actor=actor)

    async def _change(self, scheduler_id: int, change: Callable[[ScheduleView], None]) -> Response:
        queries = self._container.queries()

        def ask() -> ScheduleView:
            change(queries.schedule_with_id(scheduler_id))
            return queries.schedule_with_id(scheduler_id)

        view = await self._asker.ask(ask)
        return as_answer(SchedulerView.with_columns(view), ETag=etag(view))
