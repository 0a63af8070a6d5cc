"""Draining nodes; what is left of retry budgets, and which circuit breakers are open."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from shlex import quote
from typing import Final

import attrs

from cronhare.domain.access import Actor
from cronhare.domain.audit import Action
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.nodes import MOST_REPORTS, PRESUMED_DEAD_AFTER, NodeReport, is_presumed_dead
from cronhare.domain.retries.limits import ACTIVATED, Breaker, BreakerState, say_budget
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import called, listed
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.records import LimitStorePort

from .. import Refused
from ..audit import AuditTrail, plain
from ..reading.lookup import NotFound, not_found
from ..views.work import BreakerView, BudgetView, NodeView


class NotDrainable(Refused):
    """A node that runs no tasks has nothing to drain."""


class NotSilent(Refused):
    """A node that has reported itself of late is not forgotten."""


@attrs.frozen(kw_only=True)
class NodeDesk:
    """Drains and forgets nodes."""

    _nodes: NodeStorePort
    _trail: AuditTrail

    def drain(self, name: str, *, actor: Actor) -> NodeView:
        """Ask a worker to take no more work; it does so within `REPORT_EVERY`, if it is there."""
        return self._ask(name, Action.DRAIN, actor)

    def undrain(self, name: str, *, actor: Actor) -> NodeView:
        return self._ask(name, Action.UNDRAIN, actor)

    def forget(self, name: str, *, actor: Actor) -> NodeView:
        """Delete the report of a node; if it does come back, it reports itself anew."""
        now = self._trail.now()
        found = self._find(name, now)
        view = NodeView.of(found, now=now)
        with self._trail.change(actor, Action.FORGET, found.name, before=_kept(view)):
            if not is_presumed_dead(found.seen_at, now):
                silence = int(PRESUMED_DEAD_AFTER.total_seconds())
                said = f"it has reported itself at {say_moment(found.seen_at)}"
                raise NotSilent(
                    f"{found.name}: {said}; it is forgotten after {silence} s of silence"
                )
            self._nodes.forget(found.name)
        return view

    def _ask(self, name: str, action: Action, actor: Actor) -> NodeView:
        now = self._trail.now()
        before = self._find(name, now)
        was, known_as = NodeView.of(before, now=now), before.name
        with self._trail.change(actor, action, known_as, before=_kept(was)) as note:
            if not before.runs_tasks:
                raise NotDrainable(f"{known_as} is a {before.role}: it runs no tasks to drain")
            asked_at = now if action is Action.DRAIN else None
            if not self._nodes.drain(known_as, asked_at=asked_at):
                raise NotFound(f"node {known_as} has ended")
            found = NodeView.of(self._find(known_as, now), now=now)
            note.after = _kept(found)
            note.unless(changed=was.drain_asked_at != found.drain_asked_at)
        return found

    def _find(self, name: str, now: datetime) -> NodeReport:
        """Find a node by its name, or by the beginning that it alone has."""
        reports = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports
        found = [each for each in reports if each.name == name]
        if not found and name:
            found = [each for each in reports if each.name.startswith(name)]
        if len(found) == 1:
            return found[0]
        names = [each.name for each in found or reports]
        if found:
            raise NotFound(f"{shown(name)} begins several nodes: {listed(names)}")
        raise not_found("node", name, names)


def _kept(node: NodeView) -> object:
    return plain({"state": node.state.value, "drain_asked_at": node.drain_asked_at})


#: So many are listed at most, of each kind.
MOST_LISTED: Final = 1_000


@attrs.frozen(kw_only=True)
class LimitDesk:
    """What is left of budgets, which breakers are open, and whom they keep back."""

    _limits: LimitStorePort
    _trail: AuditTrail

    def budgets(self) -> Sequence[BudgetView]:
        now = self._trail.now()
        found = self._limits.budgets(limit=MOST_LISTED)
        return [BudgetView.of(budget, now=now) for budget in found]

    def breakers(self) -> Sequence[BreakerView]:
        now = self._trail.now()
        found = self._limits.breakers(limit=MOST_LISTED)
        return [BreakerView.of(breaker, now=now) for breaker in found]

    def about(self, execution: Execution) -> Iterator[str]:
        """Say which limits keep an execution from another retry, now or in the end."""
        now = self._trail.now()
        goes_on = execution.state in UNFINISHED
        if goes_on and (budget := self._limits.budget(execution.queue)) is not None:
            budget = budget.as_of(now)
            remaining = budget.remaining(now)
            left = (
                f"has {remaining:,} left"
                if remaining
                else f"is spent until {say_moment(budget.free_at(now))}"
            )
            name = say_budget(budget)
            yield f"{name[0].upper()}{name[1:]} {left}."
        was_let_fail = (execution.state, execution.last_error) == (State.FAILED, ACTIVATED)
        if not goes_on and not was_let_fail:
            return
        breaker = self._limits.breaker(str(execution.task))
        if breaker is not None and breaker.state(now) is not BreakerState.CLOSED:
            yield _said_open(breaker, now)
        if was_let_fail:
            task = quote(called(execution.task, name=execution.task_name, topic=execution.topic))
            again = f"cronhare failed replay --task {task} --reason {quote(ACTIVATED)}"
            yield f"Once its cause is gone, `{again}` runs what the breaker let fail."

    def reset(self, task: str, *, actor: Actor) -> BreakerView:
        """Close a breaker, and let it count anew; answer what it was.

        *task* is `report 25`, or the task's name in a jobs file.
        """
        known = self._limits.breakers(limit=MOST_LISTED)
        named = [each for each in known if each.name == task]
        breaker = self._limits.breaker(task) or (named[0] if len(named) == 1 else None)
        if breaker is None:
            raise NotFound(_no_breaker(task, named or known))
        was = BreakerView.of(breaker, now=self._trail.now())
        with self._trail.change(actor, Action.RESET_BREAKER, breaker.task, before=plain(was)):
            if not self._limits.reset(breaker.task):
                raise NotFound(_no_breaker(task, named or known))
        return was


def _said_open(breaker: Breaker, now: datetime) -> str:
    reset = f"`cronhare breakers reset {quote(breaker.said)}` closes it"
    if breaker.state(now) is BreakerState.HALF_OPEN:
        probe = f"execution {breaker.probe}" if breaker.probe else "the next retry"
        return f"The circuit breaker of {breaker.said} is half open: {probe} is its probe; {reset}."
    until = say_moment(breaker.probe_at) if breaker.probe_at else "a reset"
    return (
        f"The circuit breaker of {breaker.said} is open until {until}: what fails before is not "
        f"tried again; {reset}."
    )


def _no_breaker(task: str, known: Sequence[Breaker]) -> str:
    names = [f"{each.task} ({each.name})" if each.name else each.task for each in known]
    there = f"there is {listed(names)}" if names else "no task has one that counts"
    return f"there is no circuit breaker of {task!r}; {there}"
