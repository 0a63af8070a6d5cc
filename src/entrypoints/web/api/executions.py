"""`/executions`: runs, their attempts and output; and how many there are, with `/failed/stats`."""

from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Final

import attrs
from fastapi import Depends, Query, Request, Response
from pydantic import BeforeValidator

from cronhare.application.administration.reading.output import OutputPage, Position
from cronhare.application.administration.views.executions import (
    ExecutionView,
    ExecutionWithAttempts,
)
from cronhare.application.administration.views.failures import ExecutionCountView, FailureCountView
from cronhare.domain.access import Scope
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.reading import Fault
from cronhare.domain.texts.printable import printable
from cronhare.ports.records import ExecutionFilter
from cronhare.ports.statistics import DAY_AND_TYPE, MOST_GROUPS, OF_FAILURES, WEEK, By

from ..access import actor_of
from ..asking import Asking
from ..problems import Problem, invalid_request
from .failures import failure_filter
from .operations import (
    ROWS,
    AfterId,
    Id,
    Limit,
    Moment,
    Operation,
    Switch,
    Text,
    as_answer,
    as_page,
    as_resource,
    as_text,
    digits,
    last_id,
    operation,
    read_body,
)
from .scheduler_actions import Nothing

#: Lines that are given of the end of an output, at most.
MOST_LINES: Final = 100_000

States = Annotated[list[State], Query(description="any of these")]
Stream = Annotated[str | None, Query(pattern="^(stdout|stderr)$")]
Tail = Annotated[int | None, BeforeValidator(digits), Query(ge=1, le=MOST_LINES)]
AfterPosition = Annotated[
    str | None,
    Query(
        pattern=r"^[0-9]{1,9}-[0-9]{1,18}-[0-9]{1,18}$",
        description="what was written after a position: the link of an answer has the next one",
    ),
]


class Executions(Asking):
    """Executions, page by page and one by one."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        one = "/executions/{execution_id}"
        yield operation(
            "GET",
            "/executions",
            self.list_executions,
            what="a page of executions, newest first",
            gives=ExecutionView,
            many=True,
            refuses=(404,),
        )
        yield operation(
            "GET",
            one,
            self.show_execution,
            what="the execution, with each of its attempts",
            gives=ExecutionWithAttempts,
            is_tagged=True,
            refuses=(404,),
        )
        yield operation(
            "GET",
            f"{one}/output",
            self.show_output,
            what="what it wrote; while more may come there is a link to that",
            gives=str,
            refuses=(404,),
        )
        yield operation(
            "POST",
            f"{one}/cancel",
            self.cancel_execution,
            scope=Scope.OPERATE,
            what="it is cancelled",
            takes=Nothing,
            may_be_empty=True,
            gives=ExecutionWithAttempts,
            also={202: ("it runs, and its worker was asked to stop it", ExecutionWithAttempts)},
            refuses=(404, 409),
        )

    async def list_executions(
        self,
        request: Request,
        *,
        schedule: Text = None,
        task: Text = None,
        state: States = [],  # noqa: B006 - the framework copies it
        since: Moment = None,
        until: Moment = None,
        after: AfterId = None,
        limit: Limit = ROWS,
    ) -> Response:
        """List executions, newest first: claimed at `since` or later, and before `until`."""
        which = ExecutionFilter(
            schedule=schedule,
            task=task,
            states=tuple(dict.fromkeys(state)),
            since=since,
            until=until,
            before=after,
            limit=limit,
        )
        queries = self._container.queries()
        found = await self._asker.ask(lambda: queries.executions(which))
        return as_page(request, found, after=last_id(found, limit=limit))

    async def show_execution(self, request: Request, execution_id: Id) -> Response:
        """Show one execution: who runs it, or what it waits for, and each attempt."""
        queries = self._container.queries()
        return as_resource(request, await self._asker.ask(lambda: queries.execution(execution_id)))

    async def show_output(
        self,
        request: Request,
        execution_id: Id,
        *,
        after: AfterPosition = None,
        stream: Stream = None,
        tail: Tail = None,
        raw: Switch = None,
    ) -> Response:
        """Show what its attempts wrote, as text; the last lines of it with `tail`.

        Control characters are escaped, but for `raw`.
        """
        pages = self._container.output_pages()
        position = Position() if after is None else Position.parse(after)
        page = await self._asker.ask(
            lambda: pages.page(execution_id, after=position, stream=stream)
        )

        def text() -> str:
            said = "".join(page.lines if tail is None else page.lines[-tail:])
            return said if raw else printable(said.replace("\r\n", "\n"), keep="\t\n")

        return as_text(request, text, after=_next(page), Execution_State=page.state.value)

    async def cancel_execution(self, request: Request, execution_id: Id) -> Response:
        """Ask for its end, whether it waits or runs."""
        await read_body(Nothing, request)
        actor = actor_of(request)

        def cancel() -> tuple[State, ExecutionWithAttempts]:
            now = self._container.ledger_time().now()
            state = self._container.administrator().cancel(execution_id, now=now, actor=actor)
            return state, self._container.queries().execution(execution_id)

        state, view = await self._asker.ask(cancel)
        if state not in {State.CANCELLED, State.RUNNING}:
            detail = f"execution {execution_id} has ended already: {state}"
            raise Problem(HTTPStatus.CONFLICT, detail, more={"state": state.value})
        return as_resource(request, view, 202 if state is State.RUNNING else 200)


def _next(page: OutputPage) -> str | None:
    return str(page.position) if page.may_come else None


Groups = Annotated[list[By], Query(description="counted by these; by day and type if left out")]
Which = Annotated[FailureFilter, Depends(failure_filter)]


class Counts(Asking):
    """Counts of the last week, unless another time is asked for."""

    def operations(self) -> Iterator[Operation]:
        """Declare what can be asked."""
        yield operation(
            "GET",
            "/failed/stats",
            self.count_failures,
            what="failures for good, resolved or not, by group",
            gives=FailureCountView,
            many=True,
            refuses=(404,),
        )
        yield operation(
            "GET",
            "/executions/stats",
            self.count_executions,
            what="executions that were claimed, by group",
            gives=ExecutionCountView,
            many=True,
        )

    async def count_failures(
        self,
        which: Which,
        *,
        by: Groups = [],  # noqa: B006 - the framework copies it
        limit: Limit = MOST_GROUPS,
    ) -> Response:
        """Count what failed for good, per day (of UTC) and type."""
        groups = _groups(by)

        def count() -> object:
            since = which.since or self._a_week_ago()
            asked = attrs.evolve(which, since=since, unresolved=False)
            return self._container.statistics().failures(asked, by=groups, limit=limit)

        return as_answer(await self._asker.ask(count))

    async def count_executions(
        self,
        *,
        by: Groups = [],  # noqa: B006 - the framework copies it
        since: Moment = None,
        until: Moment = None,
        limit: Limit = MOST_GROUPS,
    ) -> Response:
        """Count the runs that were claimed, without skipped ones, as far as the ledger has them."""
        groups = _groups(by)
        if wrong := [each.value for each in groups if each in OF_FAILURES]:
            raise invalid_request([Fault("by", f"{wrong[0]}: only failures have one")])

        def count() -> object:
            return self._container.statistics().executions(
                since=since or self._a_week_ago(), until=until, by=groups, limit=limit
            )

        return as_answer(await self._asker.ask(count))

    def _a_week_ago(self) -> datetime:
        return self._container.ledger_time().now() - WEEK


def _groups(by: list[By]) -> tuple[By, ...]:
    return tuple(dict.fromkeys(by)) or DAY_AND_TYPE
