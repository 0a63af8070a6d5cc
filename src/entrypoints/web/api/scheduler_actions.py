"""`/schedulers/{id}/pause`, `run`, `backfill` and the like: what is done with a schedule."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs

from cronhare.adapters.jobs.fields import JsonText, read_moment
from cronhare.application.administration.changing.replays import BackfillPreview
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.application.administration.views.failures import ReplayView
from cronhare.application.administration.views.schedules import DueView
from cronhare.domain.cron import find_zone
from cronhare.domain.reading import REQUIRED, Fault, whole_number

from ..operations import Call, Reply, Resource, administers, operates, reads
from ..problems import invalid_request
from ..reading import Id
from .failures import Paced
from .schedulers import SchedulerView, etag


@attrs.frozen(kw_only=True)
class PauseRequest:
    """Why, and until when: a moment without an offset is wall time in the schedule's zone.

    Without an end it lasts until a resume.
    """

    reason: str | None = None
    until: str | None = None


class SchedulerSwitches(Resource):
    """Pauses and resumes, enables and disables."""

    @operates("/schedulers/{scheduler_id}/pause", "the schedule, as it is now")
    def pause_scheduler(
        self, scheduler_id: Id, body: PauseRequest, call: Call
    ) -> Reply[SchedulerView]:
        """Skip each due instant until a time, or until a resume."""
        view, faults = self._container.queries().schedule_with_id(scheduler_id), list[Fault]()
        until = read_moment("until", body.until, find_zone(view.timezone or "UTC"), faults)
        if faults:
            raise invalid_request(faults)
        self._container.administrator().pause(
            {view.name: until}, reason=body.reason, by=call.actor.name, actor=call.actor
        )
        return self._shown(scheduler_id)

    @operates("/schedulers/{scheduler_id}/resume", "the schedule, as it is now")
    def resume_scheduler(self, scheduler_id: Id, call: Call) -> Reply[SchedulerView]:
        """End a pause. What was due meanwhile is not run: a backfill does that."""
        name = self._container.queries().schedule_with_id(scheduler_id).name
        self._container.administrator().resume([name], actor=call.actor)
        return self._shown(scheduler_id)

    @administers("POST", "/schedulers/{scheduler_id}/enable", "the schedule, as it is now")
    def enable_scheduler(self, scheduler_id: Id, call: Call) -> Reply[SchedulerView]:
        """Enable a schedule; it is due from now on."""
        return self._switch(scheduler_id, call, on=True)

    @administers("POST", "/schedulers/{scheduler_id}/disable", "the schedule, as it is now")
    def disable_scheduler(self, scheduler_id: Id, call: Call) -> Reply[SchedulerView]:
        """Disable a schedule; what runs goes on."""
        return self._switch(scheduler_id, call, on=False)

    def _switch(self, scheduler_id: int, call: Call, *, on: bool) -> Reply[SchedulerView]:
        name = self._container.queries().schedule_with_id(scheduler_id).name
        self._container.administrator().switch([name], on=on, actor=call.actor)
        return self._shown(scheduler_id)

    def _shown(self, scheduler_id: int) -> Reply[SchedulerView]:
        view = self._container.queries().schedule_with_id(scheduler_id)
        return Reply(SchedulerView.with_columns(view), headers={"ETag": etag(view)})


#: Instants that are told, by default and at most.
INSTANTS: Final = 10
MOST_INSTANTS: Final = 1_000


@attrs.frozen(kw_only=True)
class HowMany:
    """How many instants."""

    count: Annotated[int, whole_number(range(1, MOST_INSTANTS + 1))] = INSTANTS


@attrs.frozen(kw_only=True)
class RunRequest:
    """A run by hand: `params` stand for the schedule's own."""

    params: JsonText = None


@attrs.frozen(kw_only=True)
class BackfillRequest(Paced):
    """The past due instants from `since` on and before `until`, oldest first.

    Moments without an offset are wall time in the schedule's zone. At most `rate` begin in a
    second, each gap longer by up to `jitter` of itself; `at_once` are under way at a time. The
    first `canary` are judged before any other begins. It stops once more than `stop_at` of them go
    badly, and never if that is null. With `dry_run` nothing is begun.
    """

    since: str = attrs.field(default="-", metadata=REQUIRED)
    until: str = attrs.field(default="-", metadata=REQUIRED)


class SchedulerRuns(Resource):
    """Runs of one schedule."""

    @reads(
        "/schedulers/{scheduler_id}/next",
        "the next due instants; those that a change of the clock moves are marked",
    )
    def list_next_runs(self, scheduler_id: Id, query: HowMany) -> Reply[Sequence[DueView]]:
        """List when a schedule is due next, and why some of these instants will not run."""
        queries = self._container.queries()
        name = queries.schedule_with_id(scheduler_id).name
        return Reply(queries.upcoming(name, count=query.count))

    @operates("/schedulers/{scheduler_id}/run", "it is on its way", status=202, refuses=(409,))
    def run_scheduler(
        self, scheduler_id: Id, body: RunRequest, call: Call, key: UUID | None
    ) -> Reply[ExecutionView]:
        """Run a schedule now; its next due instant does not move.

        Asked again with the same key, answer the run that it began.
        """
        params = body.params or "null" if "params" in call.content else None
        name = self._container.queries().schedule_with_id(scheduler_id).name
        execution = self._container.administrator().run_now(
            name, params=params, actor=call.actor, request=key
        )
        view = ExecutionView.of(execution, now=execution.executed_at)
        return Reply(view, headers={"Location": f"/executions/{view.id}"})

    @operates(
        "/schedulers/{scheduler_id}/backfill",
        "they begin in the background",
        status=202,
        gives=ReplayView,
        also={200: ("what it would be, as `dry_run` asks", BackfillPreview)},
        needs_body=True,
    )
    def backfill_scheduler(
        self, scheduler_id: Id, body: BackfillRequest, call: Call, key: UUID | None
    ) -> Reply[ReplayView | BackfillPreview]:
        """Run past due instants; asked again with the same key, answer what it began."""
        view = self._container.queries().schedule_with_id(scheduler_id)
        since, until = _span(body, find_zone(view.timezone or "UTC"))
        replays, rules = self._container.replays(), body.rules(call)
        order, preview = replays.look_at_backfill(view.name, since=since, until=until, **rules)
        if body.dry_run:
            return Reply(preview, 200)
        begun = replays.backfill(order, actor=call.actor, request=key)
        return Reply(begun, headers={"Location": f"/replays/{begun.id}"})


def _span(body: BackfillRequest, zone: ZoneInfo) -> tuple[datetime, datetime]:
    faults: list[Fault] = []
    since = read_moment("since", body.since, zone, faults)
    until = read_moment("until", body.until, zone, faults)
    if since is None or until is None:
        raise invalid_request(faults)
    return since, until
