"""What was lost on the way, and what becomes of it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from cronhare.adapters.memory.broker import MemoryInspection
from cronhare.application.scheduling import chores
from cronhare.application.scheduling.chores import probe_lanes
from cronhare.domain.execution import Graces, State
from cronhare.domain.lifecycle.orders import BackfillOrder
from cronhare.domain.messages import Signer
from cronhare.domain.retries.outcome import CrashPolicy, Outcome
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.schedule import Concurrency
from cronhare.domain.topology import FAILED_QUEUE, LANES, MAIN_QUEUE, QUARANTINE_QUEUE, RETRY_QUEUE
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import StartRequest
from cronhare.ports.broker import Envelope, Published
from cronhare.ports.inspection import (
    LaneReport,
    LaneState,
)
from cronhare.ports.records import ExecutionFilter, Retention
from tests.ports import NO_NACKS
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import (
    CRASH,
    SECOND,
    always,
    due,
    failure,
    live,
    run,
    waits,
)
from tests.unit.application.house import LEASE, NOON, House

MINUTE = timedelta(minutes=1)


def vanish(house: House) -> None:
    """Start the only execution as a worker that is never heard of again."""
    [message] = house.messages(MAIN_QUEUE)
    assert message.id == house.only.message_id
    request = StartRequest(execution_id=house.only.id, attempt=house.only.attempt, nacks=NO_NACKS)
    house.attempts.start([request], now=house.now, node="gone-3", lease=LEASE)


async def test_an_attempt_whose_worker_vanished_is_retried(lines: Lines) -> None:
    house = House()
    due(house)
    vanish(house)

    house.clock.advance(LEASE)
    round_ = house.reconciler.tick(house.now)
    await house.open()
    await live(house, timedelta(seconds=30))

    assert (round_.lost, house.only.state, house.only.deaths) == (1, State.SUCCEEDED, 1)
    assert waits(house) == [30.0]
    assert "Error: its worker gone-3 vanished" in "\n".join(lines())


def test_a_lost_attempt_has_the_policy_of_its_schedule() -> None:
    house = House()
    due(house, retry=RetryPolicy(attempts=1))
    vanish(house)

    house.clock.advance(LEASE)
    house.reconciler.tick(house.now)

    assert house.only.state is State.FAILED


def pass_time(house: House, duration: timedelta, step: timedelta) -> None:
    """Let time pass while nobody consumes."""
    for _ in range(duration // step):
        house.clock.advance(step)
        house.dispatcher.tick(house.now)
        house.reconciler.tick(house.now)


async def test_a_broker_that_lost_all_while_it_was_away_is_told_all_within_a_minute() -> None:
    house = House(page=2)
    for number in range(5):
        house.add(f"old-{number}", schedule="1 12 2 3 *")
    house.add("late", schedule="0 16 2 3 *")
    house.dispatcher.tick(house.now)
    pass_time(house, timedelta(hours=4), 5 * MINUTE)
    assert house.broker.depth(MAIN_QUEUE) > 5
    house.broker.go_away()
    pass_time(house, timedelta(hours=3), 5 * MINUTE)
    house.broker.drop_all()
    house.broker.come_back()

    pass_time(house, MINUTE, 5 * SECOND)

    assert len({message.id for message in house.messages(MAIN_QUEUE)}) == 6


@pytest.mark.parametrize(
    ("fails", "made"),
    [
        ({"overdue": TypeError, "gates": TypeError}, ["lapsed", "end_waiting"]),
        ({"lapsed": LedgerUnavailable}, ["overdue", "end_waiting", "gates"]),
        ({"lapsed": LedgerUnavailable, "overdue": LedgerUnavailable}, []),
    ],
    ids=["faults of ours", "one without an answer", "two without an answer"],
)
def test_a_look_that_fails_costs_the_others_nothing_unless_the_ledger_is_away(
    fails: Mapping[str, type[Exception]], made: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House()
    due(house)
    looks = list[str]()

    def look(name: str) -> tuple[()]:
        if name in fails:
            raise fails[name](name)
        looks.append(name)
        return ()

    for name in ("lapsed", "overdue", "end_waiting", "gates"):
        monkeypatch.setattr(house.claims, name, lambda name=name, **_: look(name))

    with pytest.raises(next(iter(fails.values())), match=next(iter(fails))):
        house.reconciler.tick(house.now)

    assert looks == made


async def test_a_cleanup_that_was_cut_off_is_made_by_a_scheduler_and_not_by_a_worker() -> None:
    house = House(start=NOON.replace(hour=2, minute=59))
    house.dispatcher.tick(house.now)
    house.clock.advance(timedelta(minutes=1))
    house.outage.begin("finish", calls=1)
    with pytest.raises(LedgerUnavailable):
        house.dispatcher.tick(house.now)

    house.clock.advance(chores.LEASE)
    lost = house.reconciler.tick(house.now).lost
    in_queues = [house.broker.depth(queue) for queue in (MAIN_QUEUE, RETRY_QUEUE)]
    await house.open()
    await live(house, timedelta(seconds=36))

    [cleanup] = house.records.executions(ExecutionFilter(schedule="cronhare-cleanup"))
    assert (lost, in_queues) == (1, [0, 0])
    assert (cleanup.state, cleanup.attempt) == (State.SUCCEEDED, 2)
    assert house.worker.counters.fenced == 0


# What follows an end for good reaches its queue, whoever dies in between

ONCE = RetryPolicy(attempts=1, crashes=CrashPolicy(limit=1))
GRACE = Graces().ended


class Dead(BaseException):
    """The worker's end, at whatever place."""


def doomed(end: Outcome) -> House:
    return House(script=always(end), policy=ONCE, signer=Signer(("secret",)))


async def cut_off(house: House, dies: type[BaseException] | None = None) -> None:
    """Let the only run end, and let nobody know of its message."""

    async def publish(envelope: Envelope) -> Published:
        if dies is not None and envelope.message.id and envelope.message.id.endswith(":end"):
            raise dies
        return Published.UNKNOWN

    house.connection.publish = publish  # type: ignore[method-assign]
    await run(house)


@pytest.mark.parametrize(
    ("ends", "queue"), [(failure(), FAILED_QUEUE), (CRASH, QUARANTINE_QUEUE)], ids=["bad", "pill"]
)
async def test_what_is_not_confirmed_is_sent_again_and_is_the_same(
    ends: Outcome, queue: str, lines: Lines
) -> None:
    told, house = doomed(ends), doomed(ends)
    await run(told)
    await cut_off(house)

    await live(house, GRACE)
    late = house.messages(queue)
    await live(house, 10 * GRACE, 10 * SECOND)

    first = told.messages(queue)
    assert late == first
    assert house.messages(queue) == []
    assert any("its message may be in no queue" in line for line in lines())


async def test_the_message_of_a_worker_that_died_before_it_could_send_it_comes() -> None:
    house = doomed(failure())
    with pytest.raises(Dead):
        await cut_off(house, Dead)

    await house.restart_worker()
    await live(house, GRACE)

    assert (house.only.state, len(house.messages(FAILED_QUEUE))) == (State.FAILED, 1)
    assert house.worker.counters.fenced == 1


# Runs that wait for a place: whoever ends one lets the next one go

ONE_AT_A_TIME = Concurrency(key="customer-42", limit=1)


async def due_together(house: House, count: int) -> None:
    for number in range(count):
        house.add(f"job-{number}", concurrency=ONE_AT_A_TIME)
    house.dispatcher.tick(house.now)
    await house.open()
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)


def states(house: House) -> list[State]:
    return [execution.state for execution in house.executions()]


@pytest.mark.parametrize("worker_dies", [False, True])
async def test_a_worker_lets_the_next_one_go_itself_or_else_a_scheduler_does(
    worker_dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House()
    await due_together(house, 3)
    assert states(house) == [State.PUBLISHED, State.HELD, State.HELD]
    if worker_dies:
        monkeypatch.setattr("cronhare.application.worker.record.GateOpener.open", lambda *_: None)

    for _ in range(3):
        await house.work()
        await house.worker.settled()
        if worker_dies:
            house.reconciler.tick(house.now)

    assert states(house) == [State.SUCCEEDED] * 3
    assert house.worker.counters.held == 0  # none went round as a message


# What a scheduler does beside: cleanup, probes of lanes, replays


DAY = timedelta(days=1)
ALMOST_THREE = NOON.replace(hour=2, minute=59)


async def test_it_cleans_up_at_three_o_clock_utc_without_any_worker(lines: Lines) -> None:
    house = House(start=ALMOST_THREE)
    house.dispatcher.tick(house.now)
    house.clock.advance(timedelta(minutes=1))

    house.dispatcher.tick(house.now)

    [cleanup] = house.records.executions(ExecutionFilter(schedule="cronhare-cleanup"))
    assert (cleanup.state, cleanup.key) == (State.SUCCEEDED, "cron-2026-3-2-3-0")
    assert house.broker.depth(MAIN_QUEUE) == 0
    assert "[INFO] [CLEANUP] ✓ Deleted 0 execution records older than 30 days" in lines()
    [output] = house.records.output(cleanup.id)
    assert output.stdout.head.startswith("[CLEANUP]")


def test_by_default_it_keeps_as_much_as_the_originals_do() -> None:
    assert Retention() == Retention(
        completed=timedelta(seconds=604_800),
        completed_rows=1_000,
        failed=timedelta(seconds=2_592_000),
        others=30 * DAY,
    )


def test_a_broken_lane_is_said_loudly_and_says_who_has_the_cure(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [LaneReport(lane, LaneState.OPEN) for lane in range(LANES)]
    found[7] = LaneReport(7, LaneState.BROKEN)
    broker = MemoryInspection()
    monkeypatch.setattr(broker, "probe", lambda: found)

    probe_lanes(broker)

    [line] = lines()
    assert line.startswith("[ERROR] What enters cron_scheduler_retry.07 does not come out")
    assert "`cronhare doctor --probe`" in line


@pytest.mark.parametrize(("rate", "at_once", "expected"), [(10, 1, 20), (2, 5, 8)])
async def test_places_that_runs_of_a_backfill_leave_are_filled_soon(
    rate: float, at_once: int, expected: int
) -> None:
    house = House()
    await house.open()
    house.add()
    await house.turn()
    [stored] = house.schedules.schedules(["report"])
    order = BackfillOrder(
        scheduler_id=stored.id,
        schedule="report",
        since=house.now - DAY,
        until=house.now,
        rate=rate,
        at_once=at_once,
    )
    house.container.replay_store().order(order, now=house.now)
    replayer = house.container.replayer(random_fraction=lambda: 0.5)
    rests_until = house.now
    for _ in range(100):
        house.clock.advance(timedelta(milliseconds=50))
        if house.now >= rests_until:
            rests_until = house.now + timedelta(seconds=replayer.round())
        await house.work()

    assert expected <= len(house.executions(State.SUCCEEDED)) <= 5 * rate + 1
