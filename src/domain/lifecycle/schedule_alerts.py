"""Alerts of one schedule: not started or finished by its time, longer than usual, little output."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Final
from zoneinfo import ZoneInfo

import attrs

from ..schedules.alert_rules import AlertConditions, Deadline, Rule
from ..texts.moments import say_duration, say_moment
from .alerts import CLEAR_AFTER, Alert, alert

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
