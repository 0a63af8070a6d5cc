"""A page of schedules that are planned together, and what was refused of them of late."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import Row

from cronhare.domain.schedules.planning import Plan, Planned, Planner
from cronhare.ports.claims import Batch

from ..cooldown import Cooldown
from ..mapping.execution_rows import display_name


class Page:
    """The schedules that one call looks at.

    Of those with a reason, and of those that were refused of late and not edited since, it only
    says what is wrong.
    """

    def __init__(self, planner: Planner, problems: Cooldown, *, limit: int, now: datetime) -> None:
        """*problems* are the schedules that were refused of late, each with the reason."""
        self.now = now
        self.reasons: dict[int, str] = {}
        self._planner = planner
        self._problems = problems
        self._of_late = problems.at(now)
        self._limit = limit
        self._rows: Sequence[Row[Any]] = ()

    @property
    def names(self) -> Mapping[int, str]:
        """The schedules by id, in the order in which they were found."""
        ids = [row.id or row.planned_id for row in self._rows]
        return {id_: display_name(row.name, id_) for id_, row in zip(ids, self._rows, strict=True)}

    @property
    def is_full(self) -> bool:
        """Whether there may be more behind it."""
        return len(self._rows) == self._limit

    def note(self, rows: Sequence[Row[Any]], only: Sequence[int] | None) -> None:
        """Take note of what was found, unless it is a part of that: *only* some."""
        if only is None:
            self._rows = rows

    def plan(self, planned: Planned) -> Plan:
        """Plan a schedule, or say what is wrong."""
        id_ = planned.schedule.id
        reason = self.reasons.get(id_)
        if reason is None and planned.edited:
            self._problems.forget(id_)
        elif reason is None:
            reason = self._of_late.get(id_)
        return self._planner(planned) if reason is None else Plan(problem=reason)


def joined(batches: Sequence[Batch]) -> Batch:
    """Join what several transactions did."""
    return Batch(
        looked=sum(one.looked for one in batches),
        claimed=tuple(chain.from_iterable(one.claimed for one in batches)),
        held=sum(one.held for one in batches),
        skipped=sum(one.skipped for one in batches),
        problems=tuple(chain.from_iterable(one.problems for one in batches)),
        busy=sum(one.busy for one in batches),
        gates=tuple(chain.from_iterable(one.gates for one in batches)),
    )
