"""From a due instant to its message, whatever the broker and its queues do."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from cronhare.application.outages import LogLimiter
from cronhare.application.scheduling import dispatch
from cronhare.application.scheduling.dispatch import Tick
from cronhare.domain.execution import State
from cronhare.domain.schedules.planning import HEAD_START, Plan, Planned, plan
from cronhare.domain.topology import LONGEST_LANE_DELAY, MAIN_QUEUE, first_queue
from cronhare.ports import LedgerUnavailable
from cronhare.ports.broker import Envelope, Published
from tests.trial_broker import TrialBroker
from tests.unit.application.conftest import Lines
from tests.unit.application.house import NOON, House

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def house() -> House:
    """A house whose schedules were planned at noon."""
    return House()


def due_in_a_minute(house: House, name: str = "report", **changes: Any) -> None:  # noqa: ANN401
    house.add(name, **changes)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)


def test_what_is_due_is_claimed_and_published_as_the_original_wrote_it(house: House) -> None:
    due_in_a_minute(house, params='{"controller":"RefreshUserToken"}')

    tick = house.dispatcher.tick(house.now)

    execution = house.only
    assert tick == Tick(planned=0, claimed=1, skipped=0, published=1)
    assert (execution.state, execution.key) == (State.PUBLISHED, "cron-2026-3-2-12-1")
    [message] = house.messages(MAIN_QUEUE)
    assert json.loads(message.body) == {
        "type": "report",
        "id": 25,
        "scheduler_id": execution.scheduler_id,
        "params_scheduler": '{"controller":"RefreshUserToken"}',
    }
    assert message.id == f"{execution.id}:1"
    assert message.headers["cron-execution-id"] == execution.id


def test_what_is_due_does_not_wait_for_an_edit_that_cannot_be_planned(house: House) -> None:
    due_in_a_minute(house)
    house.outage.begin("plan_edited")

    with pytest.raises(LedgerUnavailable):
        house.dispatcher.tick(house.now)

    assert len(house.messages(MAIN_QUEUE)) == 1


def test_a_claim_that_nobody_confirmed_is_sent_again_with_the_same_attempt(
    house: House, lines: Lines
) -> None:
    due_in_a_minute(house)
    house.broker.go_away()
    house.clock.advance(HEAD_START)

    tick = house.dispatcher.tick(house.now)

    assert (tick.claimed, tick.published, house.only.state) == (1, 0, State.CLAIMED)
    assert not [line for line in lines() if "It is unknown" in line], "nothing was sent"
    house.broker.come_back()
    house.clock.advance(10 * SECOND)
    assert house.reconciler.tick(house.now).republished == 1
    [message] = house.messages(MAIN_QUEUE)
    assert (house.only.state, message.id) == (State.PUBLISHED, f"{house.only.id}:1")


def test_a_queue_that_is_not_there_is_told_loudly_and_then_ever_more_rarely(
    house: House, lines: Lines
) -> None:
    due_in_a_minute(house, queue="cron_scheduler.nobody")

    house.dispatcher.tick(house.now)
    for _ in range(20):
        house.clock.advance(MINUTE)
        house.reconciler.tick(house.now)

    [line, *others] = [line for line in lines() if "returned" in line]
    assert line.startswith("[ERROR] ")
    assert "there is no queue cron_scheduler.nobody" in line
    assert "start a worker with --queues cron_scheduler.nobody (CRON_QUEUES)" in line
    assert "correct `queue` of report" in line
    assert f"cronhare executions cancel ID, of {house.only.id}" in line
    assert len(others) == 2, "after 5 and 15 minutes"
    house.broker.declare(["cron_scheduler.nobody"])
    house.clock.advance(10 * SECOND)
    house.reconciler.tick(house.now)
    assert house.only.state is State.PUBLISHED, "it was sent again all the time"


def test_a_run_spread_further_than_the_lanes_reach_waits_in_the_ledger(house: House) -> None:
    spread = timedelta(days=2)
    due_in_a_minute(house, schedule="1 12 2 3 *", jitter=spread)

    tick = house.dispatcher.tick(house.now)

    begins = house.only.next_attempt_at
    assert begins is not None
    assert begins - house.now > LONGEST_LANE_DELAY
    assert (tick.claimed, tick.published, house.only.state) == (1, 0, State.CLAIMED)
    house.clock.move_to(begins + 10 * SECOND)
    house.reconciler.tick(house.now)
    assert (house.broker.depth(MAIN_QUEUE), house.only.state) == (1, State.PUBLISHED)


def test_it_sleeps_until_the_earliest_plan_or_the_next_refresh(house: House) -> None:
    house.add()
    house.dispatcher.tick(house.now)
    refresh = house.dispatcher.wake_at(house.now)
    house.clock.advance(58 * SECOND)

    house.dispatcher.tick(house.now)

    assert refresh == NOON + 5 * SECOND
    assert house.dispatcher.wake_at(house.now) == NOON + MINUTE


def test_what_has_just_become_due_goes_before_what_was_missed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronhare.adapters.sql.claims.plans.INSTANTS_AT_ONCE", 50)
    for number in range(5):
        house.add(f"behind-{number}")
    house.dispatcher.tick(house.now)
    house.clock.advance(timedelta(minutes=20, seconds=-30))
    house.add("fresh")
    house.clock.advance(30 * SECOND)

    house.dispatcher.tick(house.now)
    first = [run.schedule_name for run in house.executions() if run.state is not State.SKIPPED]
    is_behind = house.dispatcher.wake_at(house.now) == house.now
    house.dispatcher.tick(house.now)

    assert first == ["fresh", *(f"behind-{n}" for n in (0, 0, 1, 1, 2, 2))]
    assert is_behind
    assert {run.schedule_name for run in house.executions()} == {
        "fresh",
        *(f"behind-{number}" for number in range(5)),
    }
    assert house.dispatcher.wake_at(house.now) > house.now


def test_what_cannot_be_had_is_looked_for_ever_more_rarely_and_nothing_else_waits(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.add("odd", schedule="1 12 2 3 *")
    house.add("sound", schedule="1-3 12 2 3 *")
    house.dispatcher.tick(house.now)

    def but_odd(planned: Planned, now: datetime) -> Plan:
        if planned.schedule.name == "odd":
            raise MemoryError
        return plan(planned, now)

    monkeypatch.setattr(dispatch, "plan", but_odd)
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)
    rests = []
    while house.now < NOON + 2 * MINUTE:
        rests.append(house.dispatcher.wake_at(house.now) - house.now)
        house.clock.advance(rests[-1])
        house.dispatcher.tick(house.now)

    assert [rest / SECOND for rest in rests[:8]] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]
    assert house.now == NOON + 2 * MINUTE
    assert [run.due_at for run in house.executions()] == [NOON + MINUTE, NOON + 2 * MINUTE]


@pytest.mark.parametrize(
    ("ago", "noticed_after"),
    [
        (timedelta(0), 5 * SECOND),  # once in a refresh
        (59 * SECOND, 5 * SECOND),  # it committed late
        (30 * MINUTE, 10 * MINUTE),  # no search by time sees it, and the full comparison does
    ],
)
def test_a_row_is_noticed_in_time_however_late_it_was_committed(
    house: House, ago: timedelta, noticed_after: timedelta
) -> None:
    house.clock.advance(timedelta(hours=1))
    house.dispatcher.tick(house.now)
    house.add(ago=ago)
    house.clock.advance(noticed_after - SECOND)

    early = house.dispatcher.tick(house.now)
    house.clock.advance(5 * SECOND)
    in_time = house.dispatcher.tick(house.now)

    assert (early.planned, in_time.planned) == (0, 1)


def test_edits_are_noticed_although_the_clock_was_set_back(house: House) -> None:
    house.clock.advance(timedelta(hours=2))
    house.dispatcher.tick(house.now)
    house.clock.move_to(NOON + timedelta(hours=1))
    house.add()

    tick = house.dispatcher.tick(house.now)

    assert tick.planned == 1
    assert house.dispatcher.wake_at(house.now) <= house.now + 5 * SECOND


def test_a_one_off_runs_once_under_its_own_key(house: House) -> None:
    due_in_a_minute(house, schedule=None, date_time=NOON + MINUTE)
    house.dispatcher.tick(house.now)
    house.clock.advance(timedelta(days=400))
    house.dispatcher.tick(house.now)

    assert [run.key for run in house.executions()] == ["once-2026-3-2-12-1"]


# Queues that take nothing: the broker's no costs only them

DEAF = "cron_scheduler.deaf"


class PartlyDeaf(TrialBroker):
    """Has one queue that takes nothing, and counts what was tried there."""

    answer = Published.REFUSED
    tried = 0

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        unreachable = [first_queue(each.to) == DEAF for each in batch]
        self.tried += sum(unreachable)
        rest = [each for each, is_deaf in zip(batch, unreachable, strict=True) if not is_deaf]
        answers = iter(super().publish(rest))
        return [self.answer if is_deaf else next(answers) for is_deaf in unreachable]


@pytest.mark.parametrize("answer", [Published.REFUSED, Published.RETURNED])
def test_what_a_queue_does_not_take_keeps_nothing_of_others_back(
    answer: Published, lines: Lines
) -> None:
    house = House(page=2)
    broker = PartlyDeaf(house.clock)
    broker.answer = answer
    house.build(broker=broker)
    for number in range(9):
        house.add(f"deaf-{number}", schedule="1 12 2 3 *", queue=DEAF)
    house.add("innocent", schedule="1 12 2 3 *")
    house.dispatcher.tick(house.now)
    broker.go_away()
    house.clock.advance(MINUTE + HEAD_START)
    house.dispatcher.tick(house.now)
    broker.come_back()
    house.clock.advance(MINUTE)
    broker.tried = 0

    house.reconciler.tick(house.now)

    [innocent] = house.executions(State.PUBLISHED)
    assert innocent.schedule_name == "innocent"
    assert broker.tried == 2  # a page of them; the rest is tried in later rounds
    house.clock.advance(MINUTE)
    house.reconciler.tick(house.now)
    assert broker.tried == 4
    silent = [line for line in lines() if "answered nothing" in line]
    assert silent == [], "a broker that refuses some is there"


def test_names_that_strangers_make_up_neither_fill_the_log_nor_silence_it_for_good() -> None:
    limiter, hours = LogLimiter(), 3_600

    told = sum(limiter.is_due(f"nowhere-{number}", number) for number in range(6 * hours))

    assert told < 2_000
    assert limiter.is_due("mails", 3 * 24 * hours)
