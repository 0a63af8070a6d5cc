"""What every ledger promises of replays of many failures, and of backfills."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from cronhare.application.administration.changing.replays import Replays
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.claims import DEFAULT_ALLOWANCE, MOST_INSTANTS
from cronhare.domain.lifecycle.orders import (
    BackfillOrder,
    Replay,
    ReplayOrder,
    ReplayProgress,
    ReplayState,
)
from cronhare.domain.reading import Invalid
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.schedules.conditions import CalendarDraft, Conditions
from cronhare.domain.schedules.keys import Trigger, trigger_of
from cronhare.ports.records import Retention
from tests.integration.ledgers import (
    EVERY_MINUTE,
    FOR_GOOD,
    HOUR,
    IN_30_S,
    MINUTE,
    NOON,
    ON_ONE,
    SECOND,
    Ledger,
    at_once,
    draft,
)

THOUSAND = 1000.0


def fail(ledger: Ledger, names: Sequence[str]) -> None:
    for name in names:
        ledger.failed(name)


def test_a_request_begins_one_replay_however_often_it_is_asked(ledger: Ledger) -> None:
    ledger.failed()
    order, request = ReplayOrder(which=UNRESOLVED), UUID(int=7)

    begun = at_once(4, lambda _: ledger.replays.order(order, now=ledger.now, request=request).id)

    assert len({*begun}) == 1
    ledger.advanced()
    assert ledger.replays.asked_by(request) == ledger.replays.replay(begun[0])
    assert ledger.replays.asked_by(UUID(int=9)) is None
    again = ledger.replays.order(order, now=ledger.now, request=request)
    assert again == ledger.replays.replay(begun[0])
    other = ledger.replays.order(order, now=ledger.now, request=UUID(int=8))
    assert [one.id for one in ledger.replays.replays(limit=5)] == [other.id, again.id]
    assert [one.id for one in ledger.replays.replays(limit=5, before=other.id)] == [again.id]


def test_a_replay_begins_what_its_filter_takes_of_what_was_there(ledger: Ledger) -> None:
    fail(ledger, ["one", "other", "two"])
    [_, other, _] = [row.id for row in ledger.records.archive()]
    which = FailureFilter(schedule="other")
    ordered = ledger.replays.order(ReplayOrder(which=which, rate=THOUSAND), now=ledger.now)
    ledger.failed("other-later")

    advance = ledger.advanced()

    assert [one.schedule_name for one in advance.executions] == ["other"]
    assert [one.state for one in advance.executions] == [State.CLAIMED]
    assert advance.replay.progress == ReplayProgress(released=1, is_collected=True)
    assert [row.schedule_name for row in ledger.records.archive()] == ["other-later", "two", "one"]
    [row] = ledger.records.archived([other])
    assert (row.resolution, row.note) == ("replayed", f"replay {ordered.id}")


def test_it_goes_on_step_by_step_to_its_end(ledger: Ledger) -> None:
    fail(ledger, ["one", "two", "three"])
    first = ledger.replayed(rate=1, jitter=0)
    assert ledger.advanced_or_not() is None
    ledger.succeeded(first[0])
    ledger.clock.advance(SECOND)
    second = ledger.advanced().executions
    ledger.finished(second[0], FOR_GOOD)
    ledger.clock.advance(SECOND)
    third = ledger.advanced()
    ledger.finished(third.executions[0], IN_30_S)
    ledger.clock.advance(SECOND)
    failing = ledger.advanced().replay
    ledger.succeeded(ledger.seen(third.executions[0]))
    ledger.clock.advance(SECOND)

    ended = ledger.advanced().replay

    begun = [*first, *second, *third.executions]
    assert [one.schedule_name for one in begun] == ["one", "two", "three"]
    assert (failing.progress.released, failing.progress.failing) == (1, 1)
    assert (ended.state, ended.ended_at) == (ReplayState.DONE, ledger.now)
    assert ended.reason == "2 succeeded, 1 failed again"
    assert ledger.replays.replay(ended.id) == ended == ledger.replays.replays(limit=9)[0]


def test_of_one_key_no_more_are_under_way_than_may(ledger: Ledger) -> None:
    for number, customer in enumerate("aaabab"):
        ledger.failed(f"hook-{number}", params=f'{{"customer":"{customer}"}}')

    first = ledger.replayed(rate=THOUSAND, key="params.customer", at_once=2)
    ledger.succeeded(first[0])
    ledger.clock.advance(SECOND)
    second = ledger.advanced().executions

    assert [one.schedule_name for one in first] == ["hook-0", "hook-1", "hook-3", "hook-5"]
    assert [one.schedule_name for one in second] == ["hook-2"]


def test_what_had_to_begin_in_time_may_be_replayed_later(ledger: Ledger) -> None:
    soon = Conditions(expires=10 * SECOND)
    ledger.failed("one", conditions=soon)
    ledger.failed("two", verdict=Quarantine("crashed"), conditions=soon)
    [_, row] = ledger.records.archive()
    ledger.clock.advance(timedelta(hours=1))

    [by_hand] = ledger.records.replay({row.id}, now=ledger.now, allowance=DEFAULT_ALLOWANCE)
    [by_many] = ledger.replayed(rate=THOUSAND)

    assert (by_hand.schedule_name, by_many.schedule_name) == ("one", "two")
    ledger.clock.advance(SECOND)
    ended = {one.id for one in ledger.claims.end_waiting(now=ledger.now, limit=100)}
    for each in (by_hand, by_many):
        assert each.id not in ended
        assert isinstance(ledger.start(each), Execution)


def test_what_stays_alive_gets_no_second_run_by_a_replay(ledger: Ledger) -> None:
    ledger.failed("pump", stay_alive=True)
    [row] = ledger.records.archive()

    by_hand = ledger.records.replay({row.id}, now=ledger.now, allowance=DEFAULT_ALLOWANCE)
    by_many = ledger.replayed(rate=THOUSAND)

    assert (list(by_hand), list(by_many)) == ([], [])
    [left] = ledger.records.archive()
    assert (left.id, left.resolution) == (row.id, None)


def test_what_cannot_be_replayed_is_refused_alone(ledger: Ledger) -> None:
    fail(ledger, ["one", "two", "three"])
    ledger.replays.order(ReplayOrder(which=UNRESOLVED, rate=1), now=ledger.now)
    begun = [*ledger.advanced().executions]
    second = max(row.id for row in ledger.records.archive()) - 1
    ledger.records.discard([second], note="known", now=ledger.now)
    for _ in range(2):
        ledger.clock.advance(2 * SECOND)
        begun += ledger.advanced().executions

    [replay] = ledger.replays.replays(limit=9)
    assert [one.schedule_name for one in begun] == ["one", "three"]
    assert (replay.progress.refused, replay.progress.waiting) == (1, 0)


def test_a_stopped_one_begins_nothing_until_it_is_resumed(ledger: Ledger) -> None:
    fail(ledger, ["one", "two"])
    [first] = ledger.replayed(rate=1, canary=1)
    [id_] = [replay.id for replay in ledger.replays.replays(limit=9)]
    stopped = ledger.replays.halt(id_, reason="by hand", now=ledger.now)
    again = ledger.replays.halt(id_, reason="twice", now=ledger.now)
    ledger.finished(first, FOR_GOOD)
    ledger.clock.advance(10 * SECOND)
    none = ledger.advanced_or_not()

    resumed = ledger.replays.resume(id_, now=ledger.now)

    assert stopped is not None
    assert resumed is not None
    assert (stopped.state, stopped.reason) == (ReplayState.STOPPED, "by hand")
    assert (again, none) == (stopped, None)
    assert resumed.state is ReplayState.ACTIVE
    assert [one.schedule_name for one in ledger.advanced().executions] == ["two"]
    assert ledger.replays.halt(id_ + 9, reason="", now=ledger.now) is None
    assert ledger.replays.resume(id_ + 9, now=ledger.now) is None


def test_of_several_schedulers_one_takes_each_step(ledger: Ledger) -> None:
    fail(ledger, [f"hook-{number}" for number in range(4)])
    ledger.replays.order(ReplayOrder(which=UNRESOLVED, rate=THOUSAND), now=ledger.now)

    answers = at_once(4, lambda _: ledger.advanced_or_not())

    begun = [one.id for answer in answers if answer for one in answer.executions]
    assert len(begun) == len(set(begun)) == 4


def test_what_is_cancelled_before_it_begins_is_left_out(ledger: Ledger) -> None:
    fail(ledger, ["a", "b", "c", "d"])
    *_, third, fourth = ledger.executions()
    first, second = ledger.replayed(rate=2.0, jitter=0.0)
    assert second.next_attempt_at is not None
    assert second.next_attempt_at > ledger.now  # begun, and its moment has not come

    ended = [ledger.records.cancel(one.id, now=ledger.now) for one in (second, third, fourth)]
    for _ in range(6):
        ledger.clock.advance(4 * SECOND)
        advance = ledger.advanced_or_not()

    assert ended == [State.CANCELLED, State.FAILED, State.FAILED]
    assert [ledger.seen(one).state for one in (second, third, fourth)] == ended
    assert ledger.seen(first).state is State.CLAIMED
    assert advance is not None
    assert advance.replay.progress.refused == 2


def test_who_replays_one_by_its_number_overrules_an_earlier_cancel(ledger: Ledger) -> None:
    archived = ledger.failed()
    ledger.records.cancel(archived.execution_id, now=ledger.now)

    [again] = ledger.records.replay([archived.id], now=ledger.now)

    assert (again.state, again.cancel_requested) == (State.CLAIMED, False)


def test_one_that_ended_is_forgotten_after_the_retention(ledger: Ledger) -> None:
    fail(ledger, ["a", "b", "c"])
    for _ in range(2):
        ledger.replays.order(ReplayOrder(which=UNRESOLVED, rate=0.01), now=ledger.now)
    ended, active = reversed(ledger.replays.replays(limit=9))
    ledger.advanced()
    ledger.replays.halt(ended.id, reason="enough", now=ledger.now)
    ledger.clock.advance(timedelta(days=30))
    ledger.records.clean_up(now=ledger.now, retention=Retention())
    kept = [one.id for one in ledger.replays.replays(limit=9)]
    ledger.clock.advance(timedelta(microseconds=1))

    ledger.records.clean_up(now=ledger.now, retention=Retention())

    assert kept == [active.id, ended.id]
    assert [one.id for one in ledger.replays.replays(limit=9)] == [active.id]
    assert ledger.replays.resume(ended.id, now=ledger.now) is None


# Backfills


HOURLY: dict[str, Any] = {"schedule": "0 * * * *", "date_time": None}
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
    assert (ended.id, ended.state) == (ordered.id, ReplayState.DONE)
    assert ended.reason == "5 succeeded, 0 failed"
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


@ON_ONE
@pytest.mark.parametrize(
    ("edited", "reason"),
    [
        ({"conditions": Conditions(skip_on=("gone",))}, "calendar gone: there is none of that"),
        ({"stay_alive": True}, "it stays alive, one run at a time"),
    ],
)
def test_what_can_be_filled_no_more_is_stopped_with_the_reason(
    ledger: Ledger, edited: dict[str, Any], reason: str
) -> None:
    ledger.add(**HOURLY)
    ledger.clock.advance(MINUTE)
    replay = order(ledger, NOON - HOUR, NOON)
    ledger.add(**HOURLY, **edited)

    stopped = ledger.advanced()

    assert (stopped.replay.id, stopped.replay.state) == (replay.id, ReplayState.STOPPED)
    assert reason in str(stopped.replay.reason)
    assert list(stopped.executions) == []


# Refusals at the edge


@pytest.fixture
def backfills(ledger: Ledger) -> Replays:
    return Replays(
        replays=ledger.replays,
        records=ledger.records,
        schedules=ledger.schedules,
        names=ledger.asked,
        trail=ledger.trail,
    )


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
    ledger: Ledger, backfills: Replays, since: datetime, until: datetime, told: str
) -> None:
    ledger.add(**EVERY_MINUTE)

    with pytest.raises(Invalid) as refused:
        backfills.look_at_backfill("report", since=since, until=until)

    assert told in str(refused.value)


@ON_ONE
def test_all_faults_are_told_at_once_and_a_preview_changes_nothing(
    ledger: Ledger, backfills: Replays
) -> None:
    ledger.add(**HOURLY)
    ledger.add("by-hand", schedule=None)
    with pytest.raises(Invalid) as refused:
        backfills.look_at_backfill(
            "by-hand", since=NOON, until=NOON + HOUR, rate=float("nan"), at_once=0
        )

    _, preview = backfills.look_at_backfill("report", since=NOON - HOUR, until=NOON)

    assert [each.field for each in refused.value.faults] == ["until", "schedule", "rate", "at_once"]
    assert (preview.instants, preview.ran) == (1, 0)
    assert list(ledger.replays.replays(limit=9)) == []
