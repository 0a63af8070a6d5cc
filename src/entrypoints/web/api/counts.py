"""`/failed/stats` and `/executions/stats`: how many, by day, type or reason."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import attrs
from fastapi import Depends, Query, Response

from cronhare.application.administration.views.failures import ExecutionCountView, FailureCountView
from cronhare.domain.access import Scope
from cronhare.domain.lifecycle.archive import (
    DAY_AND_TYPE,
    MOST_GROUPS,
    OF_FAILURES,
    WEEK,
    By,
    FailureFilter,
)
from cronhare.domain.reading import Fault

from ..asking import Asking
from ..problems import invalid_request
from .answers import as_answer
from .failure_bodies import failure_filter
from .operations import Operation, operation
from .parameters import Limit, Moment

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
            scope=Scope.READ,
            what="failures for good, resolved or not, by group",
            gives=FailureCountView,
            many=True,
            refuses=(404,),
        )
        yield operation(
            "GET",
            "/executions/stats",
            self.count_executions,
            scope=Scope.READ,
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
