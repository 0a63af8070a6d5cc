"""`/failed` and `/quarantine`: which failures a request means, and what becomes of them."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
from fastapi import Depends, Query, Request, Response

from cronhare.adapters.jobs.fields import read_moment
from cronhare.application.administration.changing.replays import Ordered
from cronhare.application.administration.views.failures import (
    DiscardedView,
    FailureView,
    FailureWithDetails,
    QuarantineView,
    ReplayedView,
)
from cronhare.domain.access import Actor, Scope
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder
from cronhare.domain.reading import Fault, Invalid
from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.retries.policy import ATTEMPTS

from ..access import actor_of
from ..asking import Asker
from ..problems import Problem, invalid_request
from .operations import (
    ROWS,
    AfterId,
    Id,
    IdempotencyKey,
    Limit,
    Moment,
    Operation,
    Text,
    as_answer,
    as_page,
    as_resource,
    last_id,
    named,
    operation,
    pacing,
    read_body,
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

    attempts: int | None = None


@attrs.frozen(kw_only=True)
class DiscardOneRequest:
    """Why it is resolved without a run."""

    note: str = ""


def failure_filter(
    *,
    schedule: Text = None,
    task: Text = None,
    type: Text = None,  # noqa: A002 - the query's name
    queue: Text = None,
    reason: Text = None,
    error_class: Annotated[ErrorClass | None, Query()] = None,
    code: Text = None,
    kind: Annotated[Kind | None, Query()] = None,
    since: Moment = None,
    until: Moment = None,
    all: Annotated[bool, Query(description="the resolved ones, too")] = False,  # noqa: A002
) -> FailureFilter:
    """Read the query of a list."""
    return FailureFilter(
        schedule=schedule,
        task=task,
        type=type,
        queue=queue,
        reason=reason,
        error_class=error_class,
        code=code,
        kind=None if kind is None else State(kind),
        since=since,
        until=until,
        unresolved=not all,
    )


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


Which = Annotated[FailureFilter, Depends(failure_filter)]


class Failures:
    """The archive, or that part of it which is quarantined."""

    def __init__(self, asker: Asker, *, kind: State | None = None) -> None:
        """*kind* is that of all that may be meant, where there is only one."""
        self._asker = asker
        self._container = asker.container
        self._kind = kind

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        is_all = self._kind is None
        base, again = ("/failed", "replay") if is_all else ("/quarantine", "release")
        yield operation(
            "GET",
            base,
            self.list_failures,
            what="a page of failures, newest first",
            gives=FailureView if is_all else QuarantineView,
            many=is_all,
            refuses=(404,),
        )
        yield operation(
            "POST",
            f"{base}/{again}",
            self.replay_failures,
            scope=Scope.OPERATE,
            status=202,
            what="they begin in the background",
            takes=ReplayRequest,
            gives=Ordered,
            also={200: ("how many there are: none, or `dry_run` was asked", Ordered)},
            refuses=(404,),
        )
        yield operation(
            "POST",
            f"{base}/discard",
            self.discard_failures,
            scope=Scope.OPERATE,
            what="how many were resolved",
            takes=DiscardRequest,
            gives=DiscardedView,
            refuses=(404,),
        )
        one = f"{base}/{{archived_id}}"
        yield operation(
            "GET",
            one,
            self.show_failure,
            what="the failure, with what is left of its execution",
            gives=FailureWithDetails,
            is_tagged=True,
            refuses=(404,),
        )
        yield operation(
            "POST",
            f"{one}/{again}",
            self.replay_failure,
            scope=Scope.OPERATE,
            status=202,
            what="it runs again",
            takes=ReplayOneRequest,
            may_be_empty=True,
            gives=ReplayedView,
            refuses=(404, 409),
        )
        yield operation(
            "POST",
            f"{one}/discard",
            self.discard_failure,
            scope=Scope.OPERATE,
            what="it is resolved",
            takes=DiscardOneRequest,
            may_be_empty=True,
            gives=DiscardedView,
            refuses=(404, 409),
        )

    async def list_failures(
        self,
        request: Request,
        which: Which,
        *,
        after: AfterId = None,
        limit: Limit = ROWS,
    ) -> Response:
        """List what failed for good and is unresolved, newest first."""
        queries = self._container.queries()
        if self._kind is None:
            found = await self._asker.ask(
                lambda: queries.failures(which, before=after, limit=limit)
            )
            return as_page(request, found, after=last_id(found, limit=limit))
        page = await self._asker.ask(lambda: queries.quarantine(which, before=after, limit=limit))
        return as_page(request, page, after=last_id(page.quarantined, limit=limit))

    async def show_failure(self, request: Request, archived_id: Id) -> Response:
        """Show one: its attempts, its last output, and whose it is."""
        found = await self._asker.ask(lambda: self._one(archived_id))
        return as_resource(request, found)

    async def replay_failure(self, request: Request, archived_id: Id) -> Response:
        """Run it again at once, with a fresh allowance of retries."""
        body, _ = await read_body(ReplayOneRequest, request)
        if body.attempts is not None and body.attempts not in ATTEMPTS:
            text = f"{body.attempts} is not {ATTEMPTS[0]}-{ATTEMPTS[-1]}"
            raise invalid_request([Fault("attempts", text)])
        actor = actor_of(request)

        def replay() -> ReplayedView:
            self._one(archived_id)
            now = self._container.ledger_time().now()
            return self._container.administrator().replay(
                [archived_id], now=now, actor=actor, attempts=body.attempts
            )

        done = await self._asker.ask(replay)
        if why := done.refused.get(archived_id):
            raise Problem(HTTPStatus.CONFLICT, f"failure {archived_id} cannot run again: {why}")
        if done.resolved_before:
            raise await self._resolved_before(archived_id)
        return as_answer(done, 202, Location=f"/executions/{done.executions[0]}")

    async def discard_failure(self, request: Request, archived_id: Id) -> Response:
        """Resolve it without a run; it stays in the archive."""
        body, _ = await read_body(DiscardOneRequest, request)
        actor = actor_of(request)

        def discard() -> DiscardedView:
            self._one(archived_id)
            now = self._container.ledger_time().now()
            administrator = self._container.administrator()
            return administrator.discard([archived_id], note=body.note, now=now, actor=actor)

        done = await self._asker.ask(discard)
        if done.resolved_before:
            raise await self._resolved_before(archived_id)
        return as_answer(done)

    async def replay_failures(
        self, request: Request, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Run many again; asked again with the same key, answer what it began."""
        body, content = await read_body(ReplayRequest, request, may_be_empty=False)
        which = read_selection(body, kind=self._kind)
        actor, key = actor_of(request), named(request, idempotency_key)
        rules = pacing(body, content, author=actor.name)
        ordered = await self._asker.ask(
            lambda: self._order(which, rules, actor=actor, key=key, dry_run=body.dry_run)
        )
        if ordered.replay is None:
            return as_answer(ordered)
        return as_answer(ordered, 202, Location=f"/replays/{ordered.replay.id}")

    async def discard_failures(self, request: Request) -> Response:
        """Resolve many without a run; they stay in the archive."""
        body, _ = await read_body(DiscardRequest, request, may_be_empty=False)
        which = read_selection(body, kind=self._kind)
        actor = actor_of(request)

        def discard() -> DiscardedView:
            now = self._container.ledger_time().now()
            administrator = self._container.administrator()
            return administrator.discard_all(which, note=body.note, now=now, actor=actor)

        return as_answer(await self._asker.ask(discard))

    def _order(
        self,
        which: FailureFilter,
        rules: Mapping[str, Any],
        *,
        actor: Actor,
        key: UUID | None,
        dry_run: bool,
    ) -> Ordered:
        order = ReplayOrder(which=which, **rules)
        replays, now = self._container.replays(), self._container.ledger_time().now()
        if dry_run:
            return Ordered(failures=replays.count(which))
        return replays.order(order, now=now, actor=actor, request=key)

    def _one(self, archived_id: int) -> FailureWithDetails:
        if self._kind is not None:
            self._container.administrator().quarantined([archived_id])
        return self._container.queries().failure(archived_id)

    async def _resolved_before(self, archived_id: int) -> Problem:
        found = await self._asker.ask(lambda: self._one(archived_id))
        state = found.failure.resolution
        detail = f"failure {archived_id} was resolved before: {state}"
        return Problem(HTTPStatus.CONFLICT, detail, more={"state": state})
