"""Alerts of what works on the ledger: no scheduler, an unserved queue, a node that is silent."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ..nodes import NodeReport, present
from ..schedules.alert_rules import Rule
from ..schedules.standalone import is_standalone
from ..texts.moments import say_moment
from ..texts.words import counted, listed
from .alerts import Alert, alert

#: What is so late has nobody who looks after it: a scheduler looks every few seconds.
OVERDUE_AFTER: Final = timedelta(minutes=2)

#: So many nodes are named; the others are counted.
MOST_NAMED: Final = 5


@attrs.frozen(kw_only=True)
class QueueSigns:
    """What waits for a queue or in it: *runs* of them, the first since *since*.

    *execution* is the first to be named.
    """

    runs: int
    since: datetime
    execution: int | None = None


@attrs.frozen(kw_only=True)
class SystemSigns:
    """What the ledger says of what works on it.

    *earliest_due* is the earliest instant that nobody has claimed, *unsent* what was claimed for
    queues and not handed to the broker, *unserved* what waits in queues that no worker serves. None
    of these are told before `OVERDUE_AFTER`. The judge has seen the ledger without a gap since
    *watched_since*: it may have been away before, and nobody could claim or send anything.
    """

    nodes: Sequence[NodeReport] = ()
    watched_since: datetime | None = None
    earliest_due: datetime | None = None
    unsent: Mapping[str, QueueSigns] = attrs.field(factory=dict[str, QueueSigns])
    unserved: Mapping[str, QueueSigns] = attrs.field(factory=dict[str, QueueSigns])

    def is_overdue(self, since: datetime, now: datetime) -> bool:
        """Whether what waits *since* then is late, though the ledger was there all the while."""
        return max(since, self.watched_since or since) < now - OVERDUE_AFTER


def judge_system(signs: SystemSigns, now: datetime) -> Iterator[Alert]:
    """Say of what people are to be alerted."""
    yield from _scheduler(signs, now)
    unsent = {
        name: queue for name, queue in signs.unsent.items() if signs.is_overdue(queue.since, now)
    }
    yield from _unsent({name: unsent[name] for name in unsent if not _is_missing(name, signs, now)})
    missing = {name: unsent[name] for name in unsent if _is_missing(name, signs, now)}
    for name, queue in sorted({**missing, **signs.unserved}.items()):
        where = f"{'for' if name in missing else 'in'} the queue {name}"
        message = (
            f"{counted(queue.runs, 'run')} {where} since {say_moment(queue.since)}, "
            f"and {_who_does_not_serve(name, signs, now)}"
        )
        yield alert(Rule.QUEUE, message, subject=name, value=queue.runs)
    yield from _silent(signs, now)


def _is_missing(queue: str, signs: SystemSigns, now: datetime) -> bool:
    """Whether a queue is that of a worker of its own, which is not there, and made none."""
    there = present(signs.nodes, now, watched_since=signs.watched_since)
    return is_standalone(queue) and not any(queue in node.queues for node in there)


def _unsent(unsent: Mapping[str, QueueSigns]) -> Iterator[Alert]:
    if not unsent:
        return
    runs, first = sum(each.runs for each in unsent.values()), min(unsent.values(), key=_since)
    run = "" if first.execution is None else f" (execution {first.execution})"
    message = (
        f"{counted(runs, 'run')}{run} for {listed(sorted(unsent), most=MOST_NAMED)} could not be "
        f"handed to the broker since {say_moment(first.since)}: it is away, or has no such queue"
    )
    yield alert(Rule.UNSENT, message, value=runs, execution=first.execution)


def _since(signs: QueueSigns) -> datetime:
    return signs.since


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
    yield alert(Rule.SCHEDULER, message, value=late)


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
        yield alert(Rule.NODE, message, subject=node.name, value=silent)


def _has_successor(node: NodeReport, living: Sequence[NodeReport]) -> bool:
    return any(
        (each.host, each.role) == (node.host, node.role) and each.started_at > node.seen_at
        for each in living
    )
