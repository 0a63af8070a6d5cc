"""Catching up: retries that an outage held up start at the rate of their queue's budget.

Backoff spreads retries only while somebody takes them. What came due while the workers, the broker
or the ledger were away would start together, and end the server that it failed at once more: S2.12
in docs/compatibility.md, ADR 18.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ..execution import Execution, State
from ..retries.budget import Budget, BudgetPolicy, as_asked, said
from .transitions import defer

#: What a worker misses by less is no outage: a restart takes seconds, and so few retries come due
#: meanwhile that their own spread is enough.
OUTAGE: Final = timedelta(minutes=1)


@attrs.frozen(kw_only=True)
class CatchUp:
    """The rate, which is that of *budget*, and when the worker that asks was *free_at* last.

    It had a free place then, and nothing came. So what was due long before did not wait for a
    place: something was away. What only waits behind others in a long queue is never deferred, or
    in a queue that stays long it would be deferred for ever.
    """

    budget: BudgetPolicy
    free_at: datetime

    def is_held_up(self, execution: Execution) -> bool:
        """Tell whether an outage held up the retry that an execution waits for.

        What was given back at a shutdown, and had not failed before, is no retry.
        """
        if execution.state is not State.RETRYING or not execution.deaths:
            return False
        due = execution.next_attempt_at
        return due is not None and due < self.free_at - OUTAGE


class HeldUpRetries:
    """Gives the retries of one batch their places, what was due first the first ones.

    *budgets* are those of `queues` that the ledger has; afterwards they are as it is to keep them.
    """

    def __init__(
        self, catch_up: CatchUp | None, asked: Iterable[Execution], *, now: datetime
    ) -> None:
        self._asked: Sequence[Execution] = ()
        if catch_up is not None:
            held_up = {one.id: one for one in asked if catch_up.is_held_up(one)}
            self._asked = sorted(held_up.values(), key=lambda one: one.next_attempt_at or now)
        self._catch_up = catch_up
        self._now = now
        self._granted: dict[int, str] = {}
        self._budgets: dict[str, Budget] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._asked)

    @property
    def queues(self) -> list[str]:
        """The queues whose budgets are asked, in the order in which every store locks them."""
        return sorted({one.queue for one in self._asked})

    @property
    def budgets(self) -> Sequence[Budget]:
        """The budgets, in the order of their queues."""
        return [self._budgets[queue] for queue in sorted(self._budgets)]

    def judge(self, budgets: Iterable[Budget]) -> dict[int, Execution]:
        """Give those that have to wait, by their ids, as they are then.

        A retry that was granted once is never lost to a spent budget: it waits, however far its
        place is, and whatever `on_exhausted` says.
        """
        self._budgets.update((budget.queue, budget) for budget in budgets)
        placed = ((one, self._place(one)) for one in self._asked)
        return {
            one.id: defer(one, at, why=f"an outage held it up, and {self._said(one)} is spent")
            for one, at in placed
            if at is not None
        }

    def give_back(self, ids: Iterable[int]) -> None:
        """Take back the grants of those that did not start for another reason: they ask again."""
        for queue in filter(None, map(self._granted.get, ids)):
            self._budgets[queue] = self._budgets[queue].without(self._now)

    def _place(self, execution: Execution) -> datetime | None:
        assert self._catch_up is not None, "somebody asks"
        policy, now, queue = self._catch_up.budget, self._now, execution.queue
        budget = as_asked(queue, self._budgets.get(queue), policy, now=now)
        place = budget.staggered_at(now)
        self._budgets[queue] = budget.granted(place, now=now)
        if place > now:
            return place
        self._granted[execution.id] = queue
        return None

    def _said(self, execution: Execution) -> str:
        return said(self._budgets[execution.queue])
