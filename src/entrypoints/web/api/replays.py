"""`/replays`: replays of many failures, and backfills, as they go on."""

from collections.abc import Sequence
from http import HTTPStatus

from cronhare.application.administration.views.failures import ReplayView
from cronhare.domain.access import Scope
from cronhare.domain.lifecycle.orders import ReplayState

from ..asking import Asking
from ..problems import Problem
from .operations import Call, Id, Page, Reply, last_id, operation
from .scheduler_actions import Nothing


class Replays(Asking):
    """Replays, page by page and one by one."""

    @operation("GET", "/replays", what="a page of replays and backfills, newest first")
    def list_replays(self, query: Page) -> Reply[Sequence[ReplayView]]:
        """List replays and backfills, newest first."""
        replays = self._container.replays()
        found = replays.list(limit=query.limit, before=query.after)
        return Reply(found, after=last_id(found, limit=query.limit))

    @operation("GET", "/replays/{replay_id}", what="the replay", is_tagged=True, refuses=(404,))
    def show_replay(self, replay_id: Id) -> Reply[ReplayView]:
        """Show one: what it is about, how far it has come, and what it waits for."""
        return Reply(self._container.replays().show(replay_id))

    @operation(
        "POST",
        "/replays/{replay_id}/cancel",
        scope=Scope.OPERATE,
        what="nothing of it begins any more",
        may_be_empty=True,
        is_tagged=True,
        refuses=(404, 409),
    )
    def cancel_replay(self, replay_id: Id, body: Nothing, call: Call) -> Reply[ReplayView]:
        """Let nothing of it begin any more; what has begun goes on."""
        del body
        actor = call.actor
        replays = self._container.replays()
        return _going_on(replays.stop(replay_id, author=actor.name, actor=actor))

    @operation(
        "POST",
        "/replays/{replay_id}/resume",
        scope=Scope.OPERATE,
        what="it goes on",
        may_be_empty=True,
        is_tagged=True,
        refuses=(404, 409),
    )
    def resume_replay(self, replay_id: Id, body: Nothing, call: Call) -> Reply[ReplayView]:
        """Let a stopped one go on, to its end: its canary and `stop_at` hold no more."""
        del body
        return _going_on(self._container.replays().resume(replay_id, actor=call.actor))


def _going_on(found: ReplayView) -> Reply[ReplayView]:
    if found.state == ReplayState.DONE:
        detail = f"{found.kind or 'replay'} {found.id} is over: {found.state}"
        raise Problem(HTTPStatus.CONFLICT, detail, more={"state": found.state})
    return Reply(found)
