"""What every ledger promises of backfills: C33 in docs/compatibility.md."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from cronhare.application.administration.changing.replays import Backfills
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.claims import MOST_INSTANTS
from cronhare.domain.lifecycle.orders import BackfillOrder, Replay, ReplayState
from cronhare.domain.reading import Invalid
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.conditions import CalendarDraft, Conditions
from cronhare.domain.schedules.keys import Trigger, trigger_of
from tests.actors import ADA
from tests.integration.ledgers import (
    EVERY_MINUTE,
    FOR_GOOD,
    MINUTE,
    NOON,
    ON_ONE,
    SECOND,
    Ledger,
    at_once,
    draft,
)

HOURLY: dict[str, Any] = {"schedule": "0 * * * *", "date_time": None}
HOUR = timedelta(hours=1)
FAST = {"rate": 1000.0, "jitter": 0.0, "at_once": 100}


def order(ledger: Ledger, since: datetime, until: datetime, **rules: Any) -> Replay:  # noqa: ANN401
    [stored] = ledger.schedules.schedules(["report"])
    asked = BackfillOrder(
        schedule="report", scheduler_id=stored.id, since=since, until=until, **{**FAST, **rules}
    )
    return ledger.replays.order(asked, now=ledger.now)


def due(executions: Iterable[Execution]) -> list[datetime]:
    return [one.due_at for one in executions]


def pass_minutes(ledger: Ledger, count: int) -> list[Execution]:
    found: list[Execution] = []
    for _ in range(count):
        ledger.clock.advance(MINUTE)
        found += ledger.claim_due().claimed
    return found


def test_past_instants_run_once_whoever_asks_and_however_often(ledger: Ledger) -> None:
    ledger.add("innocent", **HOURLY)
    ledger.add(**HOURLY)
    ledger.clock.advance(MINUTE)
    ordered = order(ledger, NOON - 5 * HOUR, NOON)

    advance = ledger.advanced()

    hours = [NOON - n * HOUR for n in (5, 4, 3, 2, 1)]
    assert due(advance.executions) == hours
    first = advance.executions[0]
    assert (first.key, first.state) == ("backfill-2026-03-02T07:00:00Z", State.CLAIMED)
    assert (first.attempt, first.expires_at, first.executed_at) == (1, None, ledger.now)
    assert trigger_of(first.key) is Trigger.BACKFILL
    for one in advance.executions:
        ledger.succeeded(one)
    ledger.clock.advance(SECOND)
    ended = ledger.advanced().replay
    assert (ended.id, ended.state, ended.reason) == (
        ordered.id,
        ReplayState.DONE,
        "5 succeeded, 0 failed",
    )
    assert ledger.replays.replay(ended.id) == ended

    order(ledger, NOON - 6 * HOUR, NOON)
    again = ledger.advanced()
    assert due(again.executions) == [NOON - 6 * HOUR]
    assert again.replay.progress.refused == 5


def test_what_ran_at_its_time_is_left_out_and_what_was_skipped_runs(ledger: Ledger) -> None:
    ledger.add(**EVERY_MINUTE, conditions=Conditions(expires=HOUR))
    ran = pass_minutes(ledger, 2)
    ledger.schedules.switch(["report"], on=False, now=ledger.now + SECOND)
    ledger.clock.advance(2 * SECOND)
    ledger.plan_edited()
    ledger.clock.advance(3 * MINUTE)
    ledger.schedules.switch(["report"], on=True, now=ledger.now)
    ledger.plan_edited()
    [skipped] = ledger.executions(State.SKIPPED)
    assert skipped.missed == 3

    order(ledger, NOON, ledger.now)
    advance = ledger.advanced()

    # The two that ran, and noon itself, which was due before there was a schedule.
    assert due(ran) == [NOON + MINUTE, NOON + 2 * MINUTE]
    assert due(advance.executions) == [NOON, *(NOON + n * MINUTE for n in (3, 4, 5))]
    assert advance.replay.progress.refused == 2
    told = ledger.explanations.of_instant("report", NOON + 4 * MINUTE + SECOND)
    assert told.execution is not None
    assert told.execution.key == "backfill-2026-03-02T12:04:00Z"
    assert told.because[0].startswith(
        "A backfill asked for it. It did not run at its time: disabled: it was off"
    )
    [found] = ledger.replays.have_run(skipped.scheduler_id, [NOON, NOON - MINUTE])
    assert found == NOON


def test_calendars_and_blackouts_hold_and_pauses_limits_and_switches_do_not(
    ledger: Ledger,
) -> None:
    calendar = CalendarDraft(name="early", timezone="UTC", windows=(("08:00-09:00", None),))
    ledger.schedules.save([], source=None, now=ledger.now, calendars=[calendar])
    conditions = Conditions(skip_on=("early",), blackout=("10:00-10:30",), max_runs=1)
    ledger.add(**HOURLY, status=False, conditions=conditions, starts_at=NOON - 5 * HOUR)
    ledger.clock.advance(MINUTE)

    order(ledger, NOON - 24 * HOUR, NOON)

    advance = ledger.advanced()
    assert [one.due_at.hour for one in advance.executions] == [7, 9, 11]
    assert (advance.replay.progress.refused, advance.replay.progress.left_out) == (0, 2)


@ON_ONE
def test_what_calendars_and_blackouts_leave_out_is_told_before_and_counted(ledger: Ledger) -> None:
    calendar = CalendarDraft(name="early", timezone="UTC", windows=(("08:00-09:00", "early"),))
    ledger.schedules.save([], source=None, now=ledger.now, calendars=[calendar])
    ledger.add(**HOURLY, conditions=Conditions(skip_on=("early",), blackout=("10:00-12:00",)))
    ledger.clock.advance(MINUTE)
    backfills = Backfills(replays=ledger.replays, schedules=ledger.schedules, trail=ledger.trail)
    hours: dict[str, Any] = {"since": NOON - 4 * HOUR, "until": NOON}
    out: dict[str, Any] = {"since": NOON - 2 * HOUR, "until": NOON}

    _, preview = backfills.look("report", **hours)
    asked, _ = backfills.look("report", **out)
    ordered = backfills.order(asked, actor=ADA)
    ended = ledger.advanced().replay

    assert (preview.instants, preview.left_out) == (4, 3)
    assert preview.left_out_by == ["blackout: 10:00-12:00", "calendar early"]
    assert (ended.id, ended.state) == (ordered.id, ReplayState.DONE)
    assert ended.reason == "0 succeeded, 0 failed, 2 left out by calendars or blackout windows"
    assert ledger.replays.replay(ended.id) == ended


def test_one_at_a_time_unless_more_are_asked_for_and_the_rest_waits(ledger: Ledger) -> None:
    ledger.add(**HOURLY)
    ledger.clock.advance(MINUTE)
    replay = order(ledger, NOON - 3 * HOUR, NOON, at_once=1)

    begun = [*ledger.advanced().executions]
    ledger.clock.advance(SECOND)
    begun += ledger.advanced().executions
    ledger.finished(begun[0], FOR_GOOD)
    ledger.clock.advance(SECOND)
    begun += ledger.advanced().executions

    assert due(begun) == [NOON - 3 * HOUR, NOON - 2 * HOUR]
    stopped = ledger.replays.halt(replay.id, reason="by hand", now=ledger.now)
    assert stopped is not None
    assert (stopped.progress.waiting, stopped.progress.failed) == (1, 1)
    ledger.clock.advance(SECOND)
    assert ledger.advanced_or_not() is None


def test_what_schedulers_have_still_to_claim_is_theirs(ledger: Ledger) -> None:
    ledger.add(**EVERY_MINUTE)
    ledger.clock.advance(3 * MINUTE + SECOND)
    order(ledger, NOON - 2 * MINUTE, ledger.now)

    before = ledger.advanced()
    ledger.clock.advance(SECOND)
    claimed = ledger.claim_due().claimed
    ledger.clock.advance(SECOND)
    after = ledger.advanced()

    assert due(before.executions) == [NOON - 2 * MINUTE, NOON - MINUTE, NOON]
    assert not before.replay.progress.is_collected
    assert due(claimed) == [NOON + 3 * MINUTE]  # the others were missed, and are caught up by it
    assert due(after.executions) == [NOON + MINUTE, NOON + 2 * MINUTE]
    assert (after.replay.progress.is_collected, after.replay.progress.refused) == (True, 1)


def test_after_an_edit_it_waits_until_a_scheduler_has_seen_it(ledger: Ledger) -> None:
    ledger.add(**HOURLY)
    ledger.clock.advance(MINUTE)
    order(ledger, NOON - 2 * HOUR, NOON)
    ledger.save(draft(**HOURLY, description="edited"))

    waiting = ledger.advanced()
    ledger.plan_edited()
    ledger.clock.advance(SECOND)
    begun = ledger.advanced()

    assert (list(waiting.executions), waiting.replay.state) == ([], ReplayState.ACTIVE)
    assert len(begun.executions) == 2


def test_very_many_are_looked_up_step_by_step(ledger: Ledger) -> None:
    ledger.add(**EVERY_MINUTE)
    ledger.clock.advance(SECOND)
    order(ledger, NOON - 2_500 * MINUTE, NOON, rate=0.01)

    counts = []
    for _ in range(4):
        progress = ledger.advanced().replay.progress
        counts.append(progress.waiting + progress.released)
        ledger.clock.advance(timedelta(seconds=100))

    assert counts[-1] == 2_500
    assert counts[0] == 1_000


def test_several_schedulers_claim_each_instant_once(ledger: Ledger) -> None:
    ledger.add(**HOURLY)
    ledger.clock.advance(MINUTE)
    for _ in range(3):
        order(ledger, NOON - 20 * HOUR, NOON)

    def step(number: int) -> list[datetime]:
        advance = ledger.replays.advance(
            now=ledger.now,
            node=f"ant-{number}",
            policy=RetryPolicy(),
            random_fraction=lambda: 0.0,
        )
        return [] if advance is None else due(advance.executions)

    answers = at_once(3, step)

    begun = sorted(one for answer in answers for one in answer)
    assert begun == [NOON - n * HOUR for n in range(20, 0, -1)]


@ON_ONE
def test_a_broken_or_lost_calendar_stops_it_with_the_reason(ledger: Ledger) -> None:
    ledger.add(**HOURLY, conditions=Conditions(skip_on=("gone",)))
    ledger.clock.advance(MINUTE)
    replay = order(ledger, NOON - HOUR, NOON)

    stopped = ledger.advanced().replay

    assert (stopped.id, stopped.state) == (replay.id, ReplayState.STOPPED)
    assert "calendar gone: there is none of that name" in str(stopped.reason)


@ON_ONE
def test_what_was_ordered_before_the_schedule_stays_alive_is_stopped(ledger: Ledger) -> None:
    ledger.add(**HOURLY)
    replay = order(ledger, NOON - HOUR, NOON)
    ledger.save(draft("report", stay_alive=True, **HOURLY))

    stopped = ledger.advanced()

    assert (stopped.replay.id, stopped.replay.state) == (replay.id, ReplayState.STOPPED)
    assert "it stays alive, one run at a time" in str(stopped.replay.reason)
    assert list(stopped.executions) == []


# Refusals at the edge


@ON_ONE
@pytest.mark.parametrize(
    ("since", "until", "told"),
    [
        (NOON, NOON, "until: 2026-03-02 12:00:00Z is not after"),
        (NOON, NOON + HOUR, "until: 2026-03-02 13:00:00Z is to come: it is 2026-03-02 12:00:00Z"),
        (NOON - timedelta(days=30_000), NOON, "since: 1944-01-12 12:00:00Z is before 1970"),
        (NOON - timedelta(days=100), NOON, f"until: more than {MOST_INSTANTS:,} instants are due"),
        (NOON - 30 * SECOND, NOON - SECOND, "since: nothing was due between these times"),
    ],
)
def test_what_cannot_be_filled_is_refused_with_the_number(
    ledger: Ledger, since: datetime, until: datetime, told: str
) -> None:
    ledger.add(**EVERY_MINUTE)
    backfills = Backfills(replays=ledger.replays, schedules=ledger.schedules, trail=ledger.trail)

    with pytest.raises(Invalid) as refused:
        backfills.look("report", since=since, until=until)

    assert told in str(refused.value)


@ON_ONE
def test_all_faults_are_told_at_once_and_a_preview_changes_nothing(ledger: Ledger) -> None:
    ledger.add(**HOURLY)
    ledger.add("by-hand", schedule=None)
    backfills = Backfills(replays=ledger.replays, schedules=ledger.schedules, trail=ledger.trail)
    with pytest.raises(Invalid) as refused:
        backfills.look("by-hand", since=NOON, until=NOON + HOUR, rate=float("nan"), at_once=0)

    _, preview = backfills.look("report", since=NOON - HOUR, until=NOON)

    assert [each.field for each in refused.value.faults] == ["until", "schedule", "rate", "at_once"]
    assert (preview.instants, preview.ran) == (1, 0)
    assert list(ledger.replays.replays(limit=9)) == []
