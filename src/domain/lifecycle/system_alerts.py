"""Alerts of what works on the ledger: no scheduler, an unserved queue, a node that is silent."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ..nodes import NodeReport, present
from ..schedules.alert_rules import Rule
from ..texts.listing import counted, listed
from ..texts.moments import say_moment
from .alerts import CRITICAL, HIGH, Alert, alert

#: What is so late has nobody who looks after it: a scheduler looks every few seconds.
OVERDUE_AFTER: Final = timedelta(minutes=2)

#: So many nodes are named; the others are counted.
MOST_NAMED: Final = 5


@attrs.frozen(kw_only=True)
class QueueSigns:
    """What waits in a queue for a worker: *runs* of them, the first since *since*."""

    runs: int
    since: datetime


@attrs.frozen(kw_only=True)
class SystemSigns:
    """What the ledger says of what works on it.

    *earliest_due* is the earliest instant that nobody has claimed, *unsent* what was claimed and
    not handed to the broker, *unserved* what waits in queues that no worker serves. None of these
    are told before `OVERDUE_AFTER`. The judge has seen the ledger without a gap since
    *watched_since*: it may have been away before, and nobody could claim or send anything.
    """

    nodes: Sequence[NodeReport] = ()
    watched_since: datetime | None = None
    earliest_due: datetime | None = None
    unsent: QueueSigns | None = None
    unserved: Mapping[str, QueueSigns] = attrs.field(factory=dict[str, QueueSigns])

    def is_overdue(self, since: datetime, now: datetime) -> bool:
        """Whether what waits *since* then is late, though the ledger was there all the while."""
        return max(since, self.watched_since or since) < now - OVERDUE_AFTER


def judge_system(signs: SystemSigns, now: datetime) -> Iterator[Alert]:
    """Say of what people are to be alerted."""
    yield from _scheduler(signs, now)
    if signs.unsent is not None and signs.is_overdue(signs.unsent.since, now):
        message = (
            f"{counted(signs.unsent.runs, 'run')} could not be handed to the broker since "
            f"{say_moment(signs.unsent.since)}: it is away, or has no such queue"
        )
        yield alert(Rule.UNSENT, message, value=signs.unsent.runs, severity=CRITICAL)
    for name, queue in sorted(signs.unserved.items()):
        message = (
            f"{counted(queue.runs, 'run')} in the queue {name} since {say_moment(queue.since)}, "
            f"and {_who_does_not_serve(name, signs, now)}"
        )
        yield alert(Rule.QUEUE, message, subject=name, value=queue.runs, severity=CRITICAL)
    yield from _silent(signs, now)


def _scheduler(signs: SystemSigns, now: datetime) -> Iterator[Alert]:
    due = signs.earliest_due
    if due is None or not signs.is_overdue(due, now):
        return
    nodes = present(signs.nodes, now, watched_since=signs.watched_since)
    there = [node.name for node in nodes if node.schedules]
    who = (
        f"though {counted(len(there), 'scheduler')} reported lately"
        if there
        else "and no scheduler reports itself"
    )
    message = f"Nothing that was due since {say_moment(due)} is claimed, {who}"
    late = round((now - due).total_seconds())
    yield alert(Rule.SCHEDULER, message, value=late, severity=CRITICAL)


def _who_does_not_serve(queue: str, signs: SystemSigns, now: datetime) -> str:
    watched = signs.watched_since
    there = present(signs.nodes, now, watched_since=watched)
    cut_off = [
        node.name
        for node in there
        if queue in node.queues and node.is_disconnected(now, watched_since=watched)
    ]
    if not cut_off:
        return "no worker serves it"
    verb = "is" if len(cut_off) == 1 else "are"
    return f"{listed(cut_off, most=MOST_NAMED)} {verb} cut off from the broker, or it is away"


def _silent(signs: SystemSigns, now: datetime) -> Iterator[Alert]:
    """Alert of nodes that were killed or cut off, and that no other has taken the place of."""
    living = present(signs.nodes, now, watched_since=signs.watched_since)
    for node in signs.nodes:
        if node in living or node.seen_at > now or _has_successor(node, living):
            continue
        message = (
            f"{node.name} ({node.role}) is silent since {say_moment(node.seen_at)}: it was killed, "
            "or is cut off from the database"
        )
        silent = round((now - node.seen_at).total_seconds())
        yield alert(Rule.NODE, message, subject=node.name, value=silent, severity=HIGH)


def _has_successor(node: NodeReport, living: Sequence[NodeReport]) -> bool:
    return any(
        (each.host, each.role) == (node.host, node.role) and each.started_at > node.started_at
        for each in living
    )
