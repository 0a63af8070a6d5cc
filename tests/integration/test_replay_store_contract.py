"""What every ledger promises of replays of many failures."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from cronhare.adapters.sql.records import replays
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.claims import DEFAULT_ALLOWANCE
from cronhare.domain.lifecycle.orders import (
    ReplayOrder,
    ReplayProgress,
    ReplayState,
)
from cronhare.domain.retries.retry import Fail, Quarantine
from cronhare.domain.schedules.conditions import Conditions
from cronhare.ports.records import Retention
from tests.integration.ledgers import FOR_GOOD, IN_30_S, SECOND, Ledger, Shell, at_once

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

    assert [one.schedule_name for one in (*first, *second, *third.executions)] == [
        "one",
        "two",
        "three",
    ]
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


def test_a_clock_that_leapt_ahead_does_not_keep_it_waiting(ledger: Ledger) -> None:
    ahead = timedelta(hours=2)
    fail(ledger, ["one", "two", "three"])
    ledger.replays.order(ReplayOrder(which=UNRESOLVED, rate=1), now=ledger.now)
    ledger.clock.advance(ahead)
    ledger.advanced()
    ledger.clock.move_to(ledger.now - ahead)

    [second] = ledger.advanced().executions

    assert (second.schedule_name, second.next_attempt_at) == ("two", ledger.now)


@pytest.mark.parametrize(
    "verdict", [FOR_GOOD, Quarantine("crashed")], ids=["failed", "quarantined"]
)
def test_what_had_to_begin_in_time_may_be_replayed_later(
    ledger: Ledger, verdict: Fail | Quarantine
) -> None:
    soon = Conditions(expires=10 * SECOND)
    ledger.failed("one", verdict=verdict, conditions=soon)
    ledger.failed("two", verdict=verdict, conditions=soon)
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


def test_of_those_that_hang_none_hides_what_ends_behind_them(
    sqlite: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite.plan_edited()
    fail(sqlite, ["one", "two", "three"])
    monkeypatch.setattr(replays, "_ENDED", replays._ENDED.limit(1))
    *_, last = sqlite.replayed(rate=THOUSAND, jitter=0)
    sqlite.clock.advance(SECOND)
    sqlite.succeeded(last)
    sqlite.clock.advance(SECOND)

    progress = sqlite.advanced().replay.progress

    assert (progress.released, progress.succeeded) == (2, 1)


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

    answers = at_once(
        4,
        lambda _: ledger.advanced_or_not(),
    )

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


def test_a_large_one_goes_whole(sqlite: Ledger, sqlite_shell: Shell) -> None:
    sqlite.plan_edited()
    order = sqlite.replays.order(ReplayOrder(which=UNRESOLVED, rate=1), now=sqlite.now)
    sqlite.replays.halt(order.id, reason="enough", now=sqlite.now)
    sqlite_shell(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) "
        f"INSERT INTO ReplayItem SELECT {order.id}, i, i, '', 'waiting' FROM n"
    )
    sqlite.clock.advance(timedelta(days=31))

    sqlite.records.clean_up(now=sqlite.now, retention=Retention())

    assert sqlite_shell("SELECT count(*) FROM ReplayItem") == [(0,)]
    assert sqlite_shell("SELECT count(*) FROM Replay") == [(0,)]
