"""`/failed` and `/quarantine`: which failures a request means, and what becomes of them."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs

from cronhare.adapters.jobs.fields import read_moment
from cronhare.application.administration.changing.replays import Ordered
from cronhare.application.administration.views.failures import (
    DiscardedView,
    FailureView,
    FailureWithDetails,
    QuarantineView,
    ReplayedView,
)
from cronhare.domain.access import Scope
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder
from cronhare.domain.reading import Fault, Invalid, whole_number
from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.retries.policy import ATTEMPTS

from ..asking import Asking
from ..problems import Problem, invalid_request
from .operations import (
    ROWS,
    AfterId,
    Call,
    Id,
    Limit,
    Moment,
    Reply,
    Text,
    described,
    last_id,
    operation,
    pacing,
)

Kind = Literal["failed", "quarantined"]

_UTC: Final = ZoneInfo("UTC")


@attrs.frozen(kw_only=True)
class FailureSelection:
    """Those of the unresolved failures that have all of this; or `all` of them.

    `task` is a task's name, or its reference (`report 25`); `reason` a part of what is said. Failed
    at `since` or later and before `until`; these are in UTC unless they say another offset.
    """

    all: bool = False
    schedule: str | None = None
    task: str | None = None
    type: str | None = None
    queue: str | None = None
    reason: str | None = None
    error_class: ErrorClass | None = None
    code: str | None = None
    kind: Kind | None = None
    since: str | None = None
    until: str | None = None


@attrs.frozen(kw_only=True)
class ReplayRequest(FailureSelection):
    """Which failures to run again, in the background, and how they are spread.

    At most `rate` begin in a second, each gap longer by up to `jitter` of itself. Of those that
    have one `key` in common (schedule, task, queue, or a path such as params.customer.id)
    `at_once` are under way. The first `canary` are judged before any other begins. It stops once
    more than `stop_at` of them go badly, and never if that is null. With `dry_run` they are only
    counted.
    """

    rate: float | None = None
    jitter: float | None = None
    key: str | None = None
    at_once: int | None = None
    canary: int | None = None
    stop_at: float | None = None
    attempts: int | None = None
    dry_run: bool = False


@attrs.frozen(kw_only=True)
class DiscardRequest(FailureSelection):
    """Which failures to resolve without a run, and why."""

    note: str = ""


@attrs.frozen(kw_only=True)
class ReplayOneRequest:
    """So many `attempts` in all; else as many as its policy says."""

    attempts: Annotated[int, whole_number(ATTEMPTS)] | None = None


@attrs.frozen(kw_only=True)
class DiscardOneRequest:
    """Why it is resolved without a run."""

    note: str = ""


@attrs.frozen(kw_only=True)
class WhichFailures:
    """Which failures."""

    schedule: Text | None = None
    task: Text | None = None
    type: Text | None = None
    queue: Text | None = None
    reason: Text | None = None
    error_class: ErrorClass | None = None
    code: Text | None = None
    kind: Kind | None = None
    since: Moment | None = None
    until: Moment | None = None
    all: Annotated[bool, described("the resolved ones, too")] = False

    @property
    def filter(self) -> FailureFilter:
        """What it is for the ledger."""
        return FailureFilter(
            schedule=self.schedule,
            task=self.task,
            type=self.type,
            queue=self.queue,
            reason=self.reason,
            error_class=self.error_class,
            code=self.code,
            kind=None if self.kind is None else State(self.kind),
            since=self.since,
            until=self.until,
            unresolved=not self.all,
        )


@attrs.frozen(kw_only=True)
class PageOfFailures(WhichFailures):
    """A page of them."""

    after: AfterId | None = None
    limit: Limit = ROWS


def read_selection(body: FailureSelection, *, kind: State | None) -> FailureFilter:
    """Read which failures a body means; it says so, or says `all`.

    *kind* is that of all that may be meant, where there is only one.

    Raises:
        Problem: with every fault at once.
    """
    faults: list[Fault] = []
    asked = {name: getattr(body, name) for name in _CONDITIONS}
    given = {name: value for name, value in asked.items() if value is not None}
    if bool(given) is body.all:
        text = "say which: a condition such as schedule, or all; and not both"
        faults.append(Fault("all", text))
    moments: dict[str, Any] = {
        name: read_moment(name, given.pop(name, None), _UTC, faults) for name in ("since", "until")
    }
    if kind is not None and given.get("kind") not in {None, kind.value}:
        faults.append(Fault("kind", f"here all are {kind}"))
    chosen = kind or (State(given["kind"]) if "kind" in given else None)
    try:
        which = FailureFilter(**{**given, "kind": chosen}, **moments)
    except Invalid as error:
        faults += error.faults
    if faults:
        raise invalid_request(faults)
    return which


_CONDITIONS: Final = tuple(
    field.name for field in attrs.fields(FailureSelection) if field.name != "all"
)


class Failures(Asking):
    """The archive."""

    #: That of all that may be meant, where there is only one.
    _kind: State | None = None

    @operation(
        "GET",
        "/failed",
        what="a page of failures, newest first",
        gives=Sequence[FailureView],
        refuses=(404,),
    )
    def list_failures(self, query: PageOfFailures) -> Reply[Any]:
        """List what failed for good and is unresolved, newest first."""
        queries, limit = self._container.queries(), query.limit
        found = queries.failures(query.filter, before=query.after, limit=limit)
        return Reply(found, after=last_id(found, limit=limit))

    @operation(
        "GET",
        "/failed/{archived_id}",
        what="the failure, with what is left of its execution",
        is_tagged=True,
        refuses=(404,),
    )
    def show_failure(self, archived_id: Id) -> Reply[FailureWithDetails]:
        """Show one: its attempts, its last output, and whose it is."""
        return Reply(self._one(archived_id))

    @operation(
        "POST",
        "/failed/{archived_id}/replay",
        scope=Scope.OPERATE,
        status=202,
        what="it runs again",
        may_be_empty=True,
        refuses=(404, 409),
    )
    def replay_failure(
        self, archived_id: Id, body: ReplayOneRequest, call: Call
    ) -> Reply[ReplayedView]:
        """Run it again at once, with a fresh allowance of retries."""
        self._one(archived_id)
        done = self._container.administrator().replay(
            [archived_id], actor=call.actor, attempts=body.attempts
        )
        if why := done.refused.get(archived_id):
            raise Problem(HTTPStatus.CONFLICT, f"failure {archived_id} cannot run again: {why}")
        if done.resolved_before:
            raise self._resolved_before(archived_id)
        return Reply(done, headers={"Location": f"/executions/{done.executions[0]}"})

    @operation(
        "POST",
        "/failed/{archived_id}/discard",
        scope=Scope.OPERATE,
        what="it is resolved",
        may_be_empty=True,
        refuses=(404, 409),
    )
    def discard_failure(
        self, archived_id: Id, body: DiscardOneRequest, call: Call
    ) -> Reply[DiscardedView]:
        """Resolve it without a run; it stays in the archive."""
        self._one(archived_id)
        administrator = self._container.administrator()
        done = administrator.discard([archived_id], note=body.note, actor=call.actor)
        if done.resolved_before:
            raise self._resolved_before(archived_id)
        return Reply(done)

    @operation(
        "POST",
        "/failed/replay",
        scope=Scope.OPERATE,
        status=202,
        what="they begin in the background",
        also={200: ("how many there are: none, or `dry_run` was asked", Ordered)},
        refuses=(404,),
    )
    def replay_failures(self, body: ReplayRequest, call: Call, key: UUID | None) -> Reply[Ordered]:
        """Run many again; asked again with the same key, answer what it began."""
        which = read_selection(body, kind=self._kind)
        order = ReplayOrder(which=which, **pacing(body, call))
        replays = self._container.replays()
        if body.dry_run:
            return Reply(Ordered(failures=replays.count(which)), 200)
        ordered = replays.order(order, actor=call.actor, request=key)
        if ordered.replay is None:
            return Reply(ordered, 200)
        return Reply(ordered, headers={"Location": f"/replays/{ordered.replay.id}"})

    @operation(
        "POST",
        "/failed/discard",
        scope=Scope.OPERATE,
        what="how many were resolved",
        refuses=(404,),
    )
    def discard_failures(self, body: DiscardRequest, call: Call) -> Reply[DiscardedView]:
        """Resolve many without a run; they stay in the archive."""
        which = read_selection(body, kind=self._kind)
        administrator = self._container.administrator()
        return Reply(administrator.discard_all(which, note=body.note, actor=call.actor))

    def _one(self, archived_id: int) -> FailureWithDetails:
        if self._kind is not None:
            self._container.administrator().quarantined([archived_id])
        return self._container.queries().failure(archived_id)

    def _resolved_before(self, archived_id: int) -> Problem:
        state = self._one(archived_id).failure.resolution
        detail = f"failure {archived_id} was resolved before: {state}"
        return Problem(HTTPStatus.CONFLICT, detail, more={"state": state})


class Quarantine(Failures):
    """That part of it which is quarantined."""

    _kind = State.QUARANTINED

    def at(self, path: str) -> str:
        return path.replace("/failed", "/quarantine").replace("/replay", "/release")

    @operation(
        "GET",
        "/failed",
        what="a page of failures, newest first",
        gives=QuarantineView,
        refuses=(404,),
    )
    def list_failures(self, query: PageOfFailures) -> Reply[Any]:
        """List what failed for good and is unresolved, newest first."""
        queries, limit = self._container.queries(), query.limit
        page = queries.quarantine(query.filter, before=query.after, limit=limit)
        return Reply(page, after=last_id(page.quarantined, limit=limit))
