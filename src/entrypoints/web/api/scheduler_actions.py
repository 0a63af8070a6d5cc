"""`/schedulers/{id}/pause`, `run`, `backfill` and the like: what is done with a schedule."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
from fastapi import Query, Request, Response
from pydantic import BeforeValidator

from cronhare.adapters.jobs.fields import JsonText, read_moment
from cronhare.application.administration.changing.replays import BackfillPreview
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.application.administration.views.failures import ReplayView
from cronhare.application.administration.views.schedules import DueView, ScheduleView
from cronhare.domain.access import Actor, Scope
from cronhare.domain.cron import find_zone
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.orders import BackfillOrder
from cronhare.domain.reading import REQUIRED, Fault

from ..access import actor_of
from ..asking import Asking
from ..problems import invalid_request
from .operations import (
    Endpoint,
    Id,
    IdempotencyKey,
    Operation,
    as_answer,
    digits,
    named,
    operation,
    pacing,
    read_body,
)
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


#: Instants that are told, by default and at most.
INSTANTS: Final = 10
MOST_INSTANTS: Final = 1_000

Count = Annotated[int, BeforeValidator(digits), Query(ge=1, le=MOST_INSTANTS)]


@attrs.frozen(kw_only=True)
class RunRequest:
    """A run by hand: `params` stand for the schedule's own."""

    params: JsonText = None


@attrs.frozen(kw_only=True)
class BackfillRequest:
    """The past due instants from `since` on and before `until`, oldest first.

    Moments without an offset are wall time in the schedule's zone. At most `rate` begin in a
    second, each gap longer by up to `jitter` of itself; `at_once` are under way at a time. The
    first `canary` are judged before any other begins. It stops once more than `stop_at` of them go
    badly, and never if that is null. With `dry_run` nothing is begun.
    """

    since: str = attrs.field(default="-", metadata=REQUIRED)
    until: str = attrs.field(default="-", metadata=REQUIRED)
    rate: float | None = None
    jitter: float | None = None
    at_once: int | None = None
    canary: int | None = None
    stop_at: float | None = None
    attempts: int | None = None
    dry_run: bool = False


class SchedulerRuns(Asking):
    """Runs of one schedule."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        one = "/schedulers/{scheduler_id}"
        yield operation(
            "GET",
            f"{one}/next",
            self.list_next_runs,
            what="the next due instants; those that a change of the clock moves are marked",
            gives=DueView,
            many=True,
            refuses=(404,),
        )
        yield operation(
            "POST",
            f"{one}/run",
            self.run_scheduler,
            scope=Scope.OPERATE,
            status=202,
            what="it is on its way",
            takes=RunRequest,
            may_be_empty=True,
            gives=ExecutionView,
            refuses=(404, 409),
        )
        yield operation(
            "POST",
            f"{one}/backfill",
            self.backfill_scheduler,
            scope=Scope.OPERATE,
            status=202,
            what="they begin in the background",
            takes=BackfillRequest,
            gives=ReplayView,
            also={200: ("what it would be, as `dry_run` asks", BackfillPreview)},
            refuses=(404,),
        )

    async def list_next_runs(self, scheduler_id: Id, *, count: Count = INSTANTS) -> Response:
        """List when a schedule is due next, and why some of these instants will not run."""
        queries = self._container.queries()

        def ask() -> Any:  # noqa: ANN401 - views
            return queries.upcoming(queries.schedule_with_id(scheduler_id).name, count=count)

        return as_answer(await self._asker.ask(ask))

    async def run_scheduler(
        self, request: Request, scheduler_id: Id, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Run a schedule now; its next due instant does not move.

        Asked again with the same key, answer the run that it began.
        """
        body, content = await read_body(RunRequest, request)
        params = body.params or "null" if "params" in content else None
        key, actor = named(request, idempotency_key), actor_of(request)
        execution = await self._asker.ask(lambda: self._run(scheduler_id, params, actor, key))
        view = ExecutionView.of(execution, now=execution.executed_at)
        return as_answer(view, 202, Location=f"/executions/{view.id}")

    async def backfill_scheduler(
        self, request: Request, scheduler_id: Id, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Run past due instants; asked again with the same key, answer what it began."""
        body, content = await read_body(BackfillRequest, request, may_be_empty=False)
        actor, key = actor_of(request), named(request, idempotency_key)
        rules = pacing(body, content, author=actor.name)
        found = await self._asker.ask(
            lambda: self._backfill(scheduler_id, body, rules, actor=actor, key=key)
        )
        if isinstance(found, BackfillPreview):
            return as_answer(found)
        return as_answer(found, 202, Location=f"/replays/{found.id}")

    def _run(
        self, scheduler_id: int, params: str | None, actor: Actor, key: UUID | None
    ) -> Execution:
        name = self._container.queries().schedule_with_id(scheduler_id).name
        now = self._container.ledger_time().now()
        return self._container.administrator().run_now(
            name, params=params, now=now, actor=actor, request=key
        )

    def _backfill(
        self,
        scheduler_id: int,
        body: BackfillRequest,
        rules: Mapping[str, Any],
        *,
        actor: Actor,
        key: UUID | None,
    ) -> ReplayView | BackfillPreview:
        view = self._container.queries().schedule_with_id(scheduler_id)
        since, until = _span(body, find_zone(view.timezone or "UTC"))
        now = self._container.ledger_time().now()
        backfills = self._container.backfills()
        order: BackfillOrder
        order, preview = backfills.look(view.name, since=since, until=until, now=now, **rules)
        if body.dry_run:
            return preview
        return backfills.order(order, now=now, actor=actor, request=key)


def _span(body: BackfillRequest, zone: ZoneInfo) -> tuple[datetime, datetime]:
    faults: list[Fault] = []
    since = read_moment("since", body.since, zone, faults)
    until = read_moment("until", body.until, zone, faults)
    if since is None or until is None:
        raise invalid_request(faults)
    return since, until
