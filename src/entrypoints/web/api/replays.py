"""`/replays`: replays of many failures, and backfills, as they go on."""

from collections.abc import Callable, Iterator
from http import HTTPStatus

from fastapi import Request, Response

from cronhare.application.administration.views.failures import ReplayView
from cronhare.domain.access import Actor, Scope
from cronhare.domain.lifecycle.orders import ReplayState

from ..access import actor_of
from ..asking import Asking
from ..problems import Problem
from .operations import (
    ROWS,
    AfterId,
    Id,
    Limit,
    Operation,
    as_page,
    as_resource,
    last_id,
    operation,
    read_body,
)
from .scheduler_actions import Nothing


class Replays(Asking):
    """Replays, page by page and one by one."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        one = "/replays/{replay_id}"
        yield operation(
            "GET",
            "/replays",
            self.list_replays,
            what="a page of replays and backfills, newest first",
            gives=ReplayView,
            many=True,
        )
        yield operation(
            "GET",
            one,
            self.show_replay,
            what="the replay",
            gives=ReplayView,
            is_tagged=True,
            refuses=(404,),
        )
        for action, endpoint, what in (
            ("cancel", self.cancel_replay, "nothing of it begins any more"),
            ("resume", self.resume_replay, "it goes on"),
        ):
            yield operation(
                "POST",
                f"{one}/{action}",
                endpoint,
                scope=Scope.OPERATE,
                what=what,
                takes=Nothing,
                may_be_empty=True,
                gives=ReplayView,
                refuses=(404, 409),
            )

    async def list_replays(
        self, request: Request, *, after: AfterId = None, limit: Limit = ROWS
    ) -> Response:
        """List replays and backfills, newest first."""
        now, replays = self._container.ledger_time().now, self._container.replays()
        found = await self._asker.ask(lambda: replays.list(limit=limit, before=after, now=now()))
        return as_page(request, found, after=last_id(found, limit=limit))

    async def show_replay(self, request: Request, replay_id: Id) -> Response:
        """Show one: what it is about, how far it has come, and what it waits for."""
        now, replays = self._container.ledger_time().now, self._container.replays()
        return as_resource(
            request, await self._asker.ask(lambda: replays.show(replay_id, now=now()))
        )

    async def cancel_replay(self, request: Request, replay_id: Id) -> Response:
        """Let nothing of it begin any more; what has begun goes on."""

        def stop(actor: Actor) -> ReplayView:
            now = self._container.ledger_time().now()
            return self._container.replays().stop(
                replay_id, author=actor.name, now=now, actor=actor
            )

        return await self._change(request, stop)

    async def resume_replay(self, request: Request, replay_id: Id) -> Response:
        """Let a stopped one go on, to its end: its canary and `stop_at` hold no more."""

        def resume(actor: Actor) -> ReplayView:
            now = self._container.ledger_time().now()
            return self._container.replays().resume(replay_id, now=now, actor=actor)

        return await self._change(request, resume)

    async def _change(self, request: Request, change: Callable[[Actor], ReplayView]) -> Response:
        await read_body(Nothing, request)
        actor = actor_of(request)
        found = await self._asker.ask(lambda: change(actor))
        if found.state == ReplayState.DONE:
            detail = f"{found.kind or 'replay'} {found.id} is over: {found.state}"
            raise Problem(HTTPStatus.CONFLICT, detail, more={"state": found.state})
        return as_resource(request, found)
