"""Schedules, their pages, times to come and changes, as people see them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta  # noqa: F401 - for the doctest
from typing import Any, Self

import attrs
import msgspec

from cronhare.application.reports.clock_effects import ClockEffect, EffectKind
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.conditions import Conditions
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import Trigger, trigger_of
from cronhare.domain.schedules.skips import Pause
from cronhare.domain.schedules.task import Keep, TaskRef
from cronhare.ports.schedules import StoredSchedule

from ..jobs_file.difference import Change, ChangedKind, FieldChange, ScheduleChange
from .values import RetryView, completed_at, json_value, outward_status, retry_facts, same, seconds


@attrs.frozen(kw_only=True)
class ClockEffectView:
    """What a change of the clock does to the wall time *meant*; *text* says it.

    *at* is the run; of a time that is skipped the change of the clock.
    """

    kind: EffectKind
    at: datetime
    meant: str
    text: str

    @classmethod
    def of(cls, effect: ClockEffect) -> Self:
        meant = f"{effect.meant:%Y-%m-%dT%H:%M}"
        return cls(kind=effect.kind, at=effect.at, meant=meant, text=str(effect))


@attrs.frozen(kw_only=True)
class DueView:
    """A due instant, in UTC and in its schedule's zone.

    Where *runs* is false it is a change of the clock that leapt over a time, which is skipped.
    *why_not* says which condition, or pause, will not let it run as things are.
    """

    utc: datetime
    local: datetime
    runs: bool
    clock: tuple[ClockEffectView, ...]
    why_not: str | None = None


@attrs.frozen(kw_only=True)
class LastRun:
    """The newest execution of a schedule that was not skipped; *trigger* is what it came of."""

    execution_id: int
    trigger: Trigger
    state: State
    status: str
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    completed_at: datetime | None

    @classmethod
    def of(cls, execution: Execution) -> Self:
        return cls(
            **same(cls, execution),
            execution_id=execution.id,
            trigger=trigger_of(execution.key),
            status=outward_status(execution),
            completed_at=completed_at(execution),
        )


@attrs.frozen(kw_only=True)
class PauseView:
    """A pause that is *on*, or is over."""

    on: bool
    since: datetime
    until: datetime | None
    by: str | None
    reason: str | None

    @classmethod
    def of(cls, pause: Pause, *, now: datetime) -> Self:
        return cls(on=pause.is_on(now), **msgspec.structs.asdict(pause))


@attrs.frozen(kw_only=True)
class ScheduleView:
    """A schedule with its last and its next run.

    Of a row that cannot be understood there is no more than *name*, *schedule*, the text of that
    column, and *problem*. *planned* is false until a scheduler has seen the newest edit.
    *retry_facts* says what its retry policy, or the settings' policy, comes to. *keep_done* and
    *keep_failed* are the runs kept of its whole *task_class*, where that has such limits.
    *runs_claimed* counts the runs that were due so far, where there is *max_runs*; *pause* is the
    last one.
    """

    id: int
    name: str
    schedule: str | None
    date_time: datetime | None = None
    every_seconds: float | None = None
    timezone: str | None = None
    gap_policy: str | None = None
    fold_policy: str | None = None
    status: bool | None = None
    task: TaskRef | None = None
    task_name: str | None = None
    topic: str | None = None
    no_listener: str | None = None
    source: str | None
    params: Any = None
    queue: str | None = None
    stay_alive: bool | None = None
    description: str | None = None
    retry: RetryView | None = None
    retry_facts: str | None = None
    task_class: str | None = None
    keep_done: int | None = None
    keep_failed: int | None = None
    misfire_policy: str | None = None
    misfire_window_seconds: float | None = None
    misfire_cap: int | None = None
    overlap_policy: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    timeout_seconds: float | None = None
    jitter_seconds: float | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None
    runs_claimed: int | None = None
    pause_after: int | None = None
    expires_seconds: float | None = None
    skip_on: tuple[str, ...] | None = None
    only_on: tuple[str, ...] | None = None
    blackout: tuple[str, ...] | None = None
    pause: PauseView | None = None
    user_id: int | None = None
    group_id: int | None = None
    language_id: int | None = None
    created_at: datetime
    updated_at: datetime
    planned: bool
    next_due_at: datetime | None
    last_run: LastRun | None
    problem: str | None

    @property
    def has_times(self) -> bool:
        times = (self.schedule, self.date_time, self.every_seconds)
        return any(each is not None for each in times)

    @classmethod
    def of(
        cls,
        stored: StoredSchedule,
        last: Execution | None,
        *,
        policy: RetryPolicy,
        now: datetime,
    ) -> Self:
        """Show a row of the users' table as it is at *now*.

        *last* is its newest execution, *policy* that of schedules without one.
        """
        draft = stored.draft
        row = same(cls, stored) | {
            "last_run": None if last is None else LastRun.of(last),
            "pause": None if stored.pause is None else PauseView.of(stored.pause, now=now),
        }
        if draft is None:
            return cls(schedule=stored.text, **row)
        for field in attrs.fields(ScheduleDraft):
            row |= shown_field(field.name, getattr(draft, field.name))
        row["queue"] = draft.runs_on
        return cls(
            **row,
            retry_facts=retry_facts(draft.retry or policy),
            runs_claimed=stored.claimed if row["max_runs"] else None,
        )


@attrs.frozen(kw_only=True)
class SchedulePage:
    """Some schedules by name; the next page is of those *after* a name, None for the last page."""

    schedules: Sequence[ScheduleView]
    after: str | None


@attrs.frozen(kw_only=True)
class ScheduleWithRuns:
    """A schedule, and when it is due next, by its row alone."""

    schedule: ScheduleView
    upcoming: Sequence[DueView]


@attrs.frozen(kw_only=True)
class ExportView:
    """A jobs file that was written, its *text*, its *schedules* and its *calendars*.

    *left_out* says by name why others are not in it; *differs* names the fields of those that are,
    where they are not as in the table; *disables* are those that it would disable if applied.
    """

    source: str
    schedules: Sequence[str]
    left_out: Mapping[str, str]
    differs: Mapping[str, Sequence[str]]
    disables: Sequence[str]
    text: str
    calendars: Sequence[str] = ()


def shown_field(name: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - a field of any kind
    """Show a field of a draft by its name, or names, in `ScheduleView`.

    >>> shown_field("timeout", timedelta(minutes=1))
    {'timeout_seconds': 60.0}
    """
    match name:
        case "timeout" | "jitter" | "every":
            return {f"{name}_seconds": seconds(value)}
        case "misfire":
            return {
                "misfire_policy": value.policy.value,
                "misfire_window_seconds": seconds(value.window),
                "misfire_cap": value.cap,
            }
        case "overlap" | "gap" | "fold":
            return {f"{name}_policy": value.value}
        case "conditions":
            conditions = value or Conditions()
            return {
                "max_runs": conditions.max_runs,
                "pause_after": conditions.pause_after,
                "expires_seconds": seconds(conditions.expires),
                "skip_on": conditions.skip_on,
                "only_on": conditions.only_on,
                "blackout": conditions.blackout,
            }
        case "concurrency":
            return {
                "concurrency_key": None if value is None else value.key,
                "concurrency_limit": None if value is None else value.limit,
            }
        case "retry":
            return {name: None if value is None else RetryView.of(value)}
        case "retention":
            keep = Keep() if value is None else value.keep
            return {
                "task_class": None if value is None else value.class_,
                "keep_done": keep.done,
                "keep_failed": keep.failed,
            }
        case "no_listener":
            return {name: value.value}
        case "params":
            return {name: json_value(value)}
    return {name: value}


@attrs.frozen(kw_only=True)
class ScheduleChangeView:
    """What becomes of a schedule or a calendar. *clock* is what its next changes do to it.

    *fields* are those of `ScheduleView` that differ in a change, in its form; `row` where the row
    before cannot be understood: *before* then says why.
    """

    kind: ChangedKind
    name: str
    change: Change
    fields: tuple[FieldChange, ...]
    clock: tuple[ClockEffectView, ...]

    @classmethod
    def of(cls, change: ScheduleChange, effects: Iterable[ClockEffect]) -> Self:
        fields = tuple(shown for field in change.fields for shown in _fields(field))
        clock = tuple(map(ClockEffectView.of, effects))
        return cls(
            kind=change.kind, name=change.name, change=change.change, fields=fields, clock=clock
        )


def _fields(change: FieldChange) -> Iterator[FieldChange]:
    """Show a field of a draft, which may be several of a view."""
    before, after = (shown_field(change.field, each) for each in (change.before, change.after))
    for field, value in after.items():
        if before[field] != value:
            yield FieldChange(field=field, before=before[field], after=value)
