"""When a schedule's runs, or what works on the ledger, raise an alert."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Final
from zoneinfo import ZoneInfo

import attrs

from ..nodes import NodeReport, present
from ..schedules.keys import is_standalone
from ..texts.moments import say_duration, say_moment
from ..texts.words import counted, listed
from .alerts import CLEAR_AFTER, Alert, alert
from .rules import AlertConditions, Deadline, Rule

#: The last runs that say what is usual, and how few say nothing.
USUAL_RUNS: Final = 20
FEWEST_USUAL: Final = 5

#: What a run of so long ago wrote may have been deleted.
OUTPUT_LOOKED_FOR: Final = timedelta(days=1)

#: No run is told of as long that took less: everything varies.
SHORTEST_LONG: Final = timedelta(seconds=10)


@attrs.frozen(kw_only=True)
class RunSigns:
    """What is known of a run.

    *started_at* is of its newest attempt: waits for a retry are no work. *output* counts the bytes
    of its standard output.
    """

    id: int
    due_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    has_succeeded: bool = False
    output: int | None = None


@attrs.frozen(kw_only=True)
class ScheduleSigns:
    """What the ledger says of a schedule.

    *unclaimed* is an instant that is due and nobody has claimed; *waiting* the earliest due run
    that has not begun, *unfinished* the earliest that has not ended, *running* the earliest that
    runs, *last* the one that ended last. *usual* are how long earlier runs
    took that succeeded, each in its last attempt.
    """

    scheduler_id: int
    name: str
    zone: ZoneInfo
    unclaimed: datetime | None = None
    waiting: RunSigns | None = None
    unfinished: RunSigns | None = None
    running: RunSigns | None = None
    last: RunSigns | None = None
    usual: Sequence[timedelta] = ()


def may_be_long(run: RunSigns | None, now: datetime) -> bool:
    """Tell whether a run is to be held against what is usual: it took long, and not long ago."""
    if run is None or run.started_at is None:
        return False
    end = run.finished_at or now
    return end - run.started_at > SHORTEST_LONG and end >= now - CLEAR_AFTER


def judge_schedule(
    signs: ScheduleSigns, conditions: AlertConditions, now: datetime, *, source: str
) -> Iterator[Alert]:
    """Say of what people are to be alerted."""
    for found in (
        _late(Rule.NOT_STARTED, signs, conditions.not_started_by, signs.waiting, now),
        _late(Rule.NOT_FINISHED, signs, conditions.not_finished_by, signs.unfinished, now),
        _long(signs, conditions.longer_than_usual or 0.0, now),
        _short(signs, conditions.least_output or 0),
    ):
        if found is not None:
            yield attrs.evolve(
                found, source=source, subject=signs.name, scheduler_id=signs.scheduler_id
            )


def _late(
    rule: Rule,
    signs: ScheduleSigns,
    deadline: Deadline | None,
    run: RunSigns | None,
    now: datetime,
) -> Alert | None:
    if deadline is None or not deadline.is_set:
        return None
    known = [each for each in (signs.unclaimed, None if run is None else run.due_at) if each]
    if not known or (by := deadline.of(min(known), signs.zone)) >= now:
        return None
    due = min(known)
    what = "begun" if rule is Rule.NOT_STARTED else "ended"
    claimed = run is not None and run.due_at == due
    how = "" if claimed else ", nor claimed by a scheduler"
    message = (
        f"{signs.name}, due at {say_moment(due)}, was to have {what} by {say_moment(by)}, and has "
        f"not{how}"
    )
    late = round((now - by).total_seconds())
    return alert(
        rule,
        message,
        value=late,
        execution=run.id if run is not None and claimed else None,
    )


def _long(signs: ScheduleSigns, factor: float, now: datetime) -> Alert | None:
    if not factor or len(signs.usual) < FEWEST_USUAL:
        return None
    usual = timedelta(seconds=median(each.total_seconds() for each in signs.usual))
    limit = max(usual * factor, SHORTEST_LONG)
    for run, verb in ((signs.running, "runs for"), (signs.last, "took")):
        if run is None or run.started_at is None or not may_be_long(run, now):
            continue
        took = (run.finished_at or now) - run.started_at
        if took > limit:
            message = (
                f"{signs.name} {verb} {_said(took)}, and its last {len(signs.usual)} runs took "
                f"{_said(usual)} at the median"
            )
            value = round(took.total_seconds(), 3)
            threshold = round(limit.total_seconds(), 3)
            return alert(
                Rule.TOO_LONG,
                message,
                value=value,
                threshold=threshold,
                execution=run.id,
            )
    return None


def _short(signs: ScheduleSigns, least: int) -> Alert | None:
    run = signs.last
    if not least or run is None or not run.has_succeeded or run.output is None:
        return None
    if run.output >= least:
        return None
    message = f"{signs.name} wrote {run.output:,} bytes, and is to write {least:,} at least"
    return alert(
        Rule.TOO_SHORT,
        message,
        value=run.output,
        threshold=least,
        execution=run.id,
    )


def _said(span: timedelta) -> str:
    return say_duration(timedelta(seconds=round(span.total_seconds())))


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
