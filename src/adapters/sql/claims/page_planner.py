"""A planner that remembers for which page of schedules it is asked, and what was refused of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from cronhare.domain.schedules.planning import Plan, Planned, Planner

from ..cooldown import Cooldown
from ..dialect import InDoubt
from ..mapping.execution_rows import display_name


class PagePlanner:
    """Plans the schedules of one page.

    Of those in *refused*, and of those that were refused of late and not edited since, it only says
    what is wrong.
    """

    def __init__(self, planner: Planner, problems: Cooldown, *, limit: int, now: datetime) -> None:
        """*problems* are the schedules that were refused of late, with the reason."""
        self.ids: Sequence[int] = ()
        self.limit = self.left = limit
        self.refused: dict[int, str] = {}
        #: Those of which not even the problem could be written: name and error.
        self.doubted: dict[int, tuple[str, InDoubt]] = {}
        self.name = ""
        self._problems = problems
        self._reasons = problems.at(now)
        self._planner = planner

    @property
    def size(self) -> int:
        """How many schedules were found."""
        return len(self.ids)

    @property
    def first(self) -> int | None:
        """The first of them."""
        return self.ids[0] if self.ids else None

    def note(self, rows: Sequence[Row[Any]]) -> None:
        """Take note of the page that was found."""
        self.ids = [row.id or row.planned_id for row in rows]
        self.name = display_name(rows[0].name, self.ids[0]) if rows else ""

    def __call__(self, planned: Planned) -> Plan:
        """Plan a schedule, or say what is wrong."""
        id_ = planned.schedule.id
        reason = self.refused.get(id_)
        if reason is None and planned.edited:
            self._problems.forget(id_)
        elif reason is None:
            reason = self._reasons.get(id_)
        return self._planner(planned) if reason is None else Plan(problem=reason)
