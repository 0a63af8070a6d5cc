"""When the ledger, what works on it, or a schedule's runs raise an alert (S0.9, S2.7).

The ids are lines of docs/compatibility.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from statistics import median
from typing import Any, Final
from zoneinfo import ZoneInfo

import attrs

from ..execution import Execution
from ..nodes import NodeReport, present
from ..texts.moments import say_duration, say_moment
from ..texts.words import counted, listed
from .alerts import CLEAR_AFTER, Alert, key_of
from .events import describe_task
from .rules import ABOUT, AlertConditions, AlertPolicy, Rule

#: The newest executions that are looked at, of a day at the most.
NEWEST: Final = 1_000
LOOKS_BACK: Final = timedelta(days=1)

#: Fewer runs have no rate.
FEWEST_RUNS: Final = 10

#: So many unresolved failures are counted: more make no other alert.
MOST_COUNTED: Final = 100_000

#: The original's words (S2.7).
GROWING: Final = "Dead Letter Queue Growing"

#: The last runs that say what is usual, and how few say nothing.
USUAL_RUNS: Final = 20
FEWEST_USUAL: Final = 5

#: What a run of so long ago wrote may have been deleted.
OUTPUT_LOOKED_FOR: Final = timedelta(days=1)

#: No run is told of as long that took less: everything varies.
SHORTEST_LONG: Final = timedelta(seconds=10)


def alert(
    rule: Rule,
    message: str,
    *,
    now: datetime,
    value: float,
    threshold: float | None = None,
    subject: str = "",
    source: str | None = None,
    scheduler_id: int = 0,
    execution: int | None = None,
    task: Mapping[str, Any] | None = None,
    **more: Any,  # noqa: ANN401 - JSON
) -> Alert:
    """Make an alert: its document has the parts that the original's has (S0.9)."""
    data: dict[str, Any] = {"rule": rule.value, "value": value, "threshold": threshold, **more}
    if subject and not scheduler_id:
        data["subject"] = subject
    if execution is not None:
        data["executionId"] = execution
    data["alert"] = {"severity": ABOUT[rule].severity, "message": message, "task": task}
    # Of what is retried too often there is one alert, about whichever is the worst.
    about = "" if rule is Rule.RETRIES else subject
    return Alert(
        key=key_of(rule, about, source),
        raised_at=now,
        held_at=now,
        data=data,
        subject=subject,
        source=source,
        scheduler_id=scheduler_id,
    )


@attrs.frozen(kw_only=True)
class Signs:
    """What the ledger says: unresolved failures, and of its newest runs how many were retried.

    *worst* is the newest that was retried too often and is not over, or only since `CLEAR_AFTER`;
    there are *too_often* of them.
    """

    unresolved: int = 0
    runs: int = 0
    retried: int = 0
    too_often: int = 0
    worst: Execution | None = None


def judge(signs: Signs, policy: AlertPolicy, now: datetime) -> Iterator[Alert]:
    raises = partial(alert, now=now)
    depth = signs.unresolved
    if 0 < policy.failed < depth:
        message = f"{depth} failed cron tasks"
        yield raises(Rule.FAILED, message, value=depth, threshold=policy.failed)
    for rule, limit in ((Rule.GROWING, policy.warning), (Rule.CRITICAL, policy.critical)):
        if 0 < limit < depth:
            message = f"DLQ has {depth} jobs (threshold: {limit})"
            growing = {
                "severity": ABOUT[rule].severity,
                "title": GROWING,
                "message": message,
                "depth": depth,
                "threshold": limit,
                "runbook": policy.runbook,
            }
            yield raises(rule, message, value=depth, threshold=limit, deadLetterQueue=growing)
    if policy.retries and (worst := signs.worst) is not None:
        more = signs.too_often - 1
        others = f", and {counted(more, 'other')} likewise" if more > 0 else ""
        yield raises(
            Rule.RETRIES,
            f"Execution {worst.id} of {worst.schedule_name} was retried "
            f"{counted(worst.deaths, 'time')} (threshold: {policy.retries}){others}",
            value=worst.deaths,
            threshold=policy.retries,
            subject=worst.schedule_name,
            scheduler_id=worst.scheduler_id,
            execution=worst.id,
            task=describe_task(worst.task, worst.scheduler_id, worst.params),
        )
    most = policy.retry_rate
    if most and signs.runs >= FEWEST_RUNS and (rate := signs.retried / signs.runs) > most:
        message = (
            f"{signs.retried} of {counted(signs.runs, 'run')} were retried: {rate:.1%} "
            f"(threshold: {most:.1%})"
        )
        yield raises(Rule.RETRY_RATE, message, value=round(rate, 4), threshold=most)


@attrs.frozen(kw_only=True)
class RunSigns:
    """What is known of a run: its newest attempt's start, and bytes of its standard *output*."""

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


def long_time(run: RunSigns | None, now: datetime) -> timedelta | None:
    """Say how long a run took if that is to be held against what is usual; None if not."""
    if run is None or run.started_at is None:
        return None
    end = run.finished_at or now
    took = end - run.started_at
    return took if took > SHORTEST_LONG and end >= now - CLEAR_AFTER else None


def judge_schedule(
    signs: ScheduleSigns, conditions: AlertConditions, now: datetime, *, source: str
) -> Iterator[Alert]:
    raises = partial(
        alert, now=now, source=source, subject=signs.name, scheduler_id=signs.scheduler_id
    )
    for rule, deadline, run, what in (
        (Rule.NOT_STARTED, conditions.not_started_by, signs.waiting, "begun"),
        (Rule.NOT_FINISHED, conditions.not_finished_by, signs.unfinished, "ended"),
    ):
        known = [each for each in (signs.unclaimed, run.due_at if run else None) if each]
        if not deadline or not known:
            continue
        due = min(known)
        if (by := deadline.of(due, signs.zone)) < now:
            claimed = run.id if run is not None and run.due_at == due else None
            message = (
                f"{signs.name}, due at {say_moment(due)}, was to have {what} by {say_moment(by)}, "
                f"and has not{'' if claimed else ', nor claimed by a scheduler'}"
            )
            late = round((now - by).total_seconds())
            yield raises(rule, message, value=late, execution=claimed)
    factor, least, last = conditions.longer_than_usual, conditions.least_output, signs.last
    if factor and len(signs.usual) >= FEWEST_USUAL:
        usual = timedelta(seconds=median(each.total_seconds() for each in signs.usual))
        limit = max(usual * factor, SHORTEST_LONG)
        for run, verb in ((signs.running, "runs for"), (last, "took")):
            if (took := long_time(run, now)) is None or took <= limit:
                continue
            message = (
                f"{signs.name} {verb} {_said(took)}, and its last {len(signs.usual)} runs "
                f"took {_said(usual)} at the median"
            )
            value, threshold = (round(each.total_seconds(), 3) for each in (took, limit))
            number = run.id if run else None
            yield raises(Rule.TOO_LONG, message, value=value, threshold=threshold, execution=number)
            break
    if least and last and last.has_succeeded and last.output is not None and last.output < least:
        message = f"{signs.name} wrote {last.output:,} bytes, and is to write {least:,} at least"
        yield raises(Rule.TOO_SHORT, message, value=last.output, threshold=least, execution=last.id)


def _said(span: timedelta) -> str:
    return say_duration(timedelta(seconds=round(span.total_seconds())))


#: What is so late has nobody who looks after it: a scheduler looks every few seconds.
ALERTED_AFTER: Final = timedelta(minutes=2)

#: So many nodes are named; the others are counted.
MOST_NAMED: Final = 5


@attrs.frozen(kw_only=True)
class QueueSigns:
    """What waits for a queue or in it: *runs*, since *since*; *execution* is named first."""

    runs: int
    since: datetime
    execution: int | None = None


@attrs.frozen(kw_only=True)
class SystemSigns:
    """What the ledger says of what works on it.

    *earliest_due* is the earliest instant that nobody has claimed, *unsent* what was claimed for
    queues and not handed to the broker, *unserved* what waits in queues that no worker serves. None
    of these are told before `ALERTED_AFTER`. The judge has seen the ledger without a gap since
    *watched_since*: it may have been away before, and nobody could claim or send anything.
    """

    nodes: Sequence[NodeReport] = ()
    watched_since: datetime | None = None
    earliest_due: datetime | None = None
    unsent: Mapping[str, QueueSigns] = attrs.field(factory=dict[str, QueueSigns])
    unserved: Mapping[str, QueueSigns] = attrs.field(factory=dict[str, QueueSigns])

    def is_overdue(self, since: datetime, now: datetime) -> bool:
        """Whether what waits *since* then is late, though the ledger was there all the while."""
        return max(since, self.watched_since or since) < now - ALERTED_AFTER


def judge_system(signs: SystemSigns, now: datetime) -> Iterator[Alert]:
    raises = partial(alert, now=now)
    there = present(signs.nodes, now, watched_since=signs.watched_since)
    due = signs.earliest_due
    if due is not None and signs.is_overdue(due, now):
        schedulers = sum(bool(node.schedules) for node in there)
        who = (
            f"though {counted(schedulers, 'scheduler')} reported lately"
            if schedulers
            else "and no scheduler reports itself"
        )
        message = f"Nothing that was due since {say_moment(due)} is claimed, {who}"
        yield raises(Rule.SCHEDULER, message, value=round((now - due).total_seconds()))
    unsent = {
        name: each for name, each in signs.unsent.items() if signs.is_overdue(each.since, now)
    }
    # Who serves a queue declares it: of one that nobody serves the broker need not know.
    served = {queue for node in there for queue in node.queues}
    missing = {name: unsent.pop(name) for name in [*unsent] if name not in served}
    if unsent:
        runs = sum(each.runs for each in unsent.values())
        first = min(unsent.values(), key=attrgetter("since"))
        run = "" if first.execution is None else f" (execution {first.execution})"
        message = (
            f"{counted(runs, 'run')}{run} for {listed(sorted(unsent), most=MOST_NAMED)} could not "
            f"be handed to the broker since {say_moment(first.since)}: it is away, or has no such "
            "queue"
        )
        yield raises(Rule.UNSENT, message, value=runs, execution=first.execution)
    for name, queue in sorted({**missing, **signs.unserved}.items()):
        where, taken = ("for", ", not taken by the broker") if name in missing else ("in", "")
        message = (
            f"{counted(queue.runs, 'run')} {where} the queue {name} since "
            f"{say_moment(queue.since)}{taken}, and {_who_does_not_serve(name, signs, there, now)}"
        )
        yield raises(Rule.QUEUE, message, subject=name, value=queue.runs)
    for node in signs.nodes:
        if node in there or node.seen_at > now:
            continue
        kin = (each for each in there if (each.host, each.role) == (node.host, node.role))
        if any(each.started_at > node.seen_at for each in kin):
            continue  # another has taken its place
        message = (
            f"{node.name} ({node.role}) is silent since {say_moment(node.seen_at)}: it was killed, "
            "or is cut off from the database"
        )
        silent = round((now - node.seen_at).total_seconds())
        yield raises(Rule.NODE, message, subject=node.name, value=silent)


def _who_does_not_serve(
    queue: str, signs: SystemSigns, there: Sequence[NodeReport], now: datetime
) -> str:
    cut_off = [
        node.name
        for node in there
        if queue in node.queues and node.is_disconnected(now, watched_since=signs.watched_since)
    ]
    if not cut_off:
        return "no worker serves it"
    verb = "is" if len(cut_off) == 1 else "are"
    return f"{listed(cut_off, most=MOST_NAMED)} {verb} cut off from the broker, or it is away"
