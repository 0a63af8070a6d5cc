"""`/failed`, `/quarantine` and `/replays`: which failures are meant, and what becomes of them."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
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
    ReplayView,
)
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder, ReplayState
from cronhare.domain.reading import Fault, Invalid, Reads, whole_number
from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.retries.policy import ATTEMPTS

from ..operations import Call, Reply, Resource, last_id, operates, reads
from ..problems import Problem
from ..reading import ROWS, AfterId, Id, Limit, Moment, Page, Text, described

Kind = Literal["failed", "quarantined"]


def _in_utc(text: str) -> datetime | None:
    faults: list[Fault] = []
    moment = read_moment("", text, ZoneInfo("UTC"), faults)
    if faults:
        raise Invalid(faults)
    return moment


# What is read has another type than what is written, which `Annotated` names.
if TYPE_CHECKING:
    UtcMoment = datetime
else:
    UtcMoment = Annotated[str, Reads(_in_utc)]


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
    since: UtcMoment | None = None
    until: UtcMoment | None = None


@attrs.frozen(kw_only=True, slots=False)  # it is a second base
class Paced:
    """How many are spread."""

    rate: float | None = None
    jitter: float | None = None
    at_once: int | None = None
    canary: int | None = None
    stop_at: float | None = None
    attempts: int | None = None
    dry_run: bool = False

    def rules(self, call: Call) -> dict[str, Any]:
        """Give the rules that are said; the others have their defaults.

        `stop_at` may be null, which is never.
        """
        names = attrs.fields_dict(Paced).keys() - {"dry_run"}
        said = {name for name in names if name in call.content}
        given = {name: getattr(self, name) for name in said}
        kept = {name: rule for name, rule in given.items() if rule is not None or name == "stop_at"}
        return {**kept, "author": call.actor.name}


@attrs.frozen(kw_only=True)
class ReplayRequest(FailureSelection, Paced):
    """Which failures to run again, in the background, and how they are spread.

    At most `rate` begin in a second, each gap longer by up to `jitter` of itself. Of those that
    have one `key` in common (schedule, task, queue, or a path such as params.customer.id)
    `at_once` are under way. The first `canary` are judged before any other begins. It stops once
    more than `stop_at` of them go badly, and never if that is null. With `dry_run` they are only
    counted.
    """

    key: str | None = None


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
        return _filter_of(self, unresolved=not self.all)


@attrs.frozen(kw_only=True)
class PageOfFailures(WhichFailures):
    """A page of them."""

    after: AfterId | None = None
    limit: Limit = ROWS


_CONDITIONS: Final = attrs.fields_dict(FailureSelection).keys() - {"all"}


def _filter_of(which: WhichFailures | FailureSelection, **more: Any) -> FailureFilter:  # noqa: ANN401
    said = {name: getattr(which, name) for name in _CONDITIONS}
    kind = None if which.kind is None else State(which.kind)
    return FailureFilter(**{**said, "kind": kind, **more})


def read_selection(body: FailureSelection, *, kind: State | None) -> FailureFilter:
    """Read which failures a body means; it says so, or says `all`.

    *kind* is that of all that may be meant, where there is only one.

    Raises:
        Invalid: with every fault at once.
    """
    faults: list[Fault] = []
    is_narrowed = any(getattr(body, name) is not None for name in _CONDITIONS)
    if is_narrowed is body.all:
        text = "say which: a condition such as schedule, or all; and not both"
        faults.append(Fault("all", text))
    if kind is not None and body.kind not in {None, kind.value}:
        faults.append(Fault("kind", f"here all are {kind}"))
    try:
        which = _filter_of(body, **({} if kind is None else {"kind": kind}))
    except Invalid as error:
        faults += error.faults
    if faults:
        raise Invalid(faults)
    return which


class Failures(Resource):
    """The archive."""

    #: That of all that may be meant, where there is only one.
    _kind: State | None = None

    @reads(
        "/failed", "a page of failures, newest first", gives=Sequence[FailureView], refuses=(404,)
    )
    def list_failures(self, query: PageOfFailures) -> Reply[Any]:
        """List what failed for good and is unresolved, newest first."""
        queries, limit = self._container.queries(), query.limit
        found = queries.failures(query.filter, before=query.after, limit=limit)
        return Reply(found, after=last_id(found, limit=limit))

    @reads(
        "/failed/{archived_id}", "the failure, with what is left of its execution", is_tagged=True
    )
    def show_failure(self, archived_id: Id) -> Reply[FailureWithDetails]:
        """Show one: its attempts, its last output, and whose it is."""
        return Reply(self._one(archived_id))

    @operates("/failed/{archived_id}/replay", "it runs again", status=202, refuses=(409,))
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

    @operates("/failed/{archived_id}/discard", "it is resolved", refuses=(409,))
    def discard_failure(
        self, archived_id: Id, body: DiscardOneRequest, call: Call
    ) -> Reply[DiscardedView]:
        """Resolve it without a run; it stays in the archive."""
        self._one(archived_id)
        done = self._container.administrator().discard(
            [archived_id], note=body.note, actor=call.actor
        )
        if done.resolved_before:
            raise self._resolved_before(archived_id)
        return Reply(done)

    @operates(
        "/failed/replay",
        "they begin in the background",
        status=202,
        also={200: ("how many there are: none, or `dry_run` was asked", Ordered)},
        refuses=(404,),
        needs_body=True,
    )
    def replay_failures(self, body: ReplayRequest, call: Call, key: UUID | None) -> Reply[Ordered]:
        """Run many again; asked again with the same key, answer what it began."""
        which = read_selection(body, kind=self._kind)
        order = ReplayOrder(which=which, key=body.key, **body.rules(call))
        replays = self._container.replays()
        if body.dry_run:
            return Reply(Ordered(failures=replays.count(which)), 200)
        ordered = replays.order(order, actor=call.actor, request=key)
        if ordered.replay is None:
            return Reply(ordered, 200)
        return Reply(ordered, headers={"Location": f"/replays/{ordered.replay.id}"})

    @operates("/failed/discard", "how many were resolved", refuses=(404,), needs_body=True)
    def discard_failures(self, body: DiscardRequest, call: Call) -> Reply[DiscardedView]:
        """Resolve many without a run; they stay in the archive."""
        which = read_selection(body, kind=self._kind)
        done = self._container.administrator().discard_all(which, note=body.note, actor=call.actor)
        return Reply(done)

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

    @reads("/failed", "a page of failures, newest first", gives=QuarantineView, refuses=(404,))
    def list_failures(self, query: PageOfFailures) -> Reply[Any]:
        """List what failed for good and is unresolved, newest first."""
        queries, limit = self._container.queries(), query.limit
        page = queries.quarantine(query.filter, before=query.after, limit=limit)
        return Reply(page, after=last_id(page.quarantined, limit=limit))


class Replays(Resource):
    """Replays, page by page and one by one."""

    @reads("/replays", "a page of replays and backfills, newest first")
    def list_replays(self, query: Page) -> Reply[Sequence[ReplayView]]:
        """List replays and backfills, newest first."""
        replays = self._container.replays()
        found = replays.list(limit=query.limit, before=query.after)
        return Reply(found, after=last_id(found, limit=query.limit))

    @reads("/replays/{replay_id}", "the replay", is_tagged=True)
    def show_replay(self, replay_id: Id) -> Reply[ReplayView]:
        """Show one: what it is about, how far it has come, and what it waits for."""
        return Reply(self._container.replays().show(replay_id))

    @operates(
        "/replays/{replay_id}/cancel",
        "nothing of it begins any more",
        is_tagged=True,
        refuses=(409,),
    )
    def cancel_replay(self, replay_id: Id, call: Call) -> Reply[ReplayView]:
        """Begin no more runs of it; what has begun goes on."""
        replays, actor = self._container.replays(), call.actor
        return _going_on(replays.stop(replay_id, author=actor.name, actor=actor))

    @operates("/replays/{replay_id}/resume", "it goes on", is_tagged=True, refuses=(409,))
    def resume_replay(self, replay_id: Id, call: Call) -> Reply[ReplayView]:
        """Go on with a stopped one to its end, without canary and `stop_at`."""
        replays = self._container.replays()
        return _going_on(replays.resume(replay_id, actor=call.actor))


def _going_on(found: ReplayView) -> Reply[ReplayView]:
    if found.state == ReplayState.DONE:
        detail = f"{found.kind or 'replay'} {found.id} is over: {found.state}"
        raise Problem(HTTPStatus.CONFLICT, detail, more={"state": found.state})
    return Reply(found)
