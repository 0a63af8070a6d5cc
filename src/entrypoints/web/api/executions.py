"""`/executions`: runs, their attempts and output; and how many there are, with `/failed/stats`."""

from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Annotated, Final, Literal

import attrs
from msgspec import Meta

from cronhare.application.administration.reading.output import Position, output_page
from cronhare.application.administration.views.executions import (
    ExecutionView,
    ExecutionWithAttempts,
)
from cronhare.application.administration.views.failures import ExecutionCountView, FailureCountView
from cronhare.domain.execution import State
from cronhare.domain.reading import Fault, whole_number
from cronhare.domain.texts.printable import printable
from cronhare.ports.records import ExecutionFilter
from cronhare.ports.statistics import DAY_AND_TYPE, MOST_GROUPS, OF_FAILURES, WEEK, By

from ..operations import Call, Reply, Resource, last_id, operates, reads
from ..problems import Problem, invalid_request
from ..reading import Id, Limit, Moment, Page, Text, described
from .failures import WhichFailures

#: Lines that are given of the end of an output, at most.
MOST_LINES: Final = 100_000


After = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,9}-[0-9]{1,18}-[0-9]{1,18}$",
        description="a position, as the Link of an answer has it",
    ),
    described("what was written after a position: the link of an answer has the next one"),
]


@attrs.frozen(kw_only=True)
class PageOfExecutions(Page):
    """A page of executions, in whatever state."""

    schedule: Text | None = None
    task: Text | None = None
    since: Moment | None = None
    until: Moment | None = None

    def filter(self, states: Collection[State]) -> ExecutionFilter:
        asked = {each.name: getattr(self, each.name) for each in attrs.fields(PageOfExecutions)}
        return ExecutionFilter(before=asked.pop("after"), states=states, **asked)


@attrs.frozen(kw_only=True)
class WhichExecutions(PageOfExecutions):
    """Which executions."""

    state: Annotated[list[State], described("any of these")] = attrs.field(factory=list)


@attrs.frozen(kw_only=True)
class WhichOutput:
    """Which part of an output, and how it is shown."""

    after: After | None = None
    stream: Literal["stdout", "stderr"] | None = None
    tail: Annotated[int, whole_number(range(1, MOST_LINES + 1))] | None = None
    raw: bool = False


class Executions(Resource):
    """Executions, page by page and one by one."""

    @reads("/executions", "a page of executions, newest first", refuses=(404,))
    def list_executions(self, query: WhichExecutions) -> Reply[Sequence[ExecutionView]]:
        """List executions, newest first: claimed at `since` or later, and before `until`."""
        which = query.filter(tuple(dict.fromkeys(query.state)))
        found = self._container.queries().executions(which)
        return Reply(found, after=last_id(found, limit=query.limit))

    @reads("/executions/{execution_id}", "the execution, with each of its attempts", is_tagged=True)
    def show_execution(self, execution_id: Id) -> Reply[ExecutionWithAttempts]:
        """Show one execution: who runs it, or what it waits for, and each attempt."""
        return Reply(self._container.queries().execution(execution_id))

    @reads(
        "/executions/{execution_id}/output",
        "what it wrote; while more may come there is a link to that",
    )
    def show_output(self, execution_id: Id, query: WhichOutput) -> Reply[str]:
        """Show what its attempts wrote, as text; the last lines of it with `tail`.

        Control characters are escaped, but for `raw`.
        """
        position = Position() if query.after is None else Position.parse(query.after)
        records = self._container.records()
        page = output_page(records, execution_id, after=position, stream=query.stream)
        said = "".join(page.lines if query.tail is None else page.lines[-query.tail :])
        text = said if query.raw else printable(said.replace("\r\n", "\n"), keep="\t\n")
        after = str(page.position) if page.may_come else None
        return Reply(text, after=after, headers={"Execution-State": page.state.value})

    @operates(
        "/executions/{execution_id}/cancel",
        "it is cancelled",
        is_tagged=True,
        also={202: ("it runs, and its worker was asked to stop it", ExecutionWithAttempts)},
        refuses=(409,),
    )
    def cancel_execution(self, execution_id: Id, call: Call) -> Reply[ExecutionWithAttempts]:
        """Ask a waiting or running execution to end."""
        administrator = self._container.administrator()
        state = administrator.cancel(execution_id, actor=call.actor)
        view = self._container.queries().execution(execution_id)
        if state not in {State.CANCELLED, State.RUNNING}:
            detail = f"execution {execution_id} has ended already: {state}"
            raise Problem(HTTPStatus.CONFLICT, detail, more={"state": state.value})
        return Reply(view, 202 if state is State.RUNNING else 200)


Groups = Annotated[list[By], described("counted by these; by day and type if left out")]


@attrs.frozen(kw_only=True)
class CountedFailures(WhichFailures):
    """Which failures are counted, and by what."""

    by: Groups = attrs.field(factory=list)
    limit: Limit = MOST_GROUPS


@attrs.frozen(kw_only=True)
class CountedExecutions:
    """Which executions are counted, and by what."""

    by: Groups = attrs.field(factory=list)
    since: Moment | None = None
    until: Moment | None = None
    limit: Limit = MOST_GROUPS


class Counts(Resource):
    """Counts of the last week, unless another time is asked for."""

    @reads("/failed/stats", "failures for good, resolved or not, by group", refuses=(404,))
    def count_failures(
        self, query: CountedFailures, call: Call
    ) -> Reply[Sequence[FailureCountView]]:
        """Count what failed for good, per day (of UTC) and type."""
        since = query.since or call.now - WEEK
        which = attrs.evolve(query.filter, since=since, unresolved=False)
        statistics = self._container.statistics()
        return Reply(statistics.failures(which, by=_groups(query.by), limit=query.limit))

    @reads("/executions/stats", "executions that were claimed, by group")
    def count_executions(
        self, query: CountedExecutions, call: Call
    ) -> Reply[Sequence[ExecutionCountView]]:
        """Count the runs that were claimed, without skipped ones."""
        groups = _groups(query.by)
        if wrong := [each.value for each in groups if each in OF_FAILURES]:
            raise invalid_request([Fault("by", f"{wrong[0]}: only failures have one")])
        since = query.since or call.now - WEEK
        statistics = self._container.statistics()
        return Reply(
            statistics.executions(since=since, until=query.until, by=groups, limit=query.limit)
        )


def _groups(by: list[By]) -> tuple[By, ...]:
    return tuple(dict.fromkeys(by)) or DAY_AND_TYPE
