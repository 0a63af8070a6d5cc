"""What was lost on the way, and what becomes of it."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from cronhare.application.scheduling import chores
from cronhare.application.scheduling.reconcile import Reconciler
from cronhare.domain.execution import State
from cronhare.domain.topology import MAIN_QUEUE, RETRY_QUEUE
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import StartRequest
from cronhare.ports.records import ExecutionFilter
from tests.ports import NO_NACKS
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import SECOND, due, live, waits
from tests.unit.application.endings import Seen
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


async def test_what_waits_in_the_queue_is_sent_again_ever_more_rarely() -> None:
    house = House()
    due(house)

    for _ in range(60):
        house.clock.advance(timedelta(minutes=1))
        house.reconciler.tick(house.now)

    assert 1 < len(house.messages(MAIN_QUEUE)) < 7


async def test_a_broker_that_lost_all_while_it_was_away_is_told_all_within_a_minute() -> None:
    house = House(page=2)
    for number in range(5):
        house.add(f"old-{number}", schedule="1 12 2 3 *")
    house.add("late", schedule="0 16 2 3 *")
    house.dispatcher.tick(house.now)
    await idle(house, timedelta(hours=4))
    assert house.broker.depth(MAIN_QUEUE) > 5
    house.broker.go_away()
    await idle(house, timedelta(hours=3))
    house.broker.drop_all()
    house.broker.come_back()

    await idle(house, MINUTE, step=5 * SECOND)

    assert len({message.id for message in house.messages(MAIN_QUEUE)}) == 6


async def idle(
    house: House,
    duration: timedelta,
    *,
    step: timedelta | None = None,
    others: Sequence[Reconciler] = (),
) -> None:
    """Let time pass while nobody consumes."""
    step = step or (5 * MINUTE if duration >= timedelta(hours=1) else MINUTE)
    ends = house.now + duration
    while house.now < ends:
        house.clock.advance(step)
        house.dispatcher.tick(house.now)
        for reconciler in (house.reconciler, *others):
            reconciler.tick(house.now)


async def test_recovery_publishes_all_that_waits_and_takes_back_what_the_gone_ran() -> None:
    seen = Seen()
    house = House(script=seen)
    due(house)
    vanish(house)
    house.add("other", schedule="2 12 2 3 *")
    await house.turn(timedelta(seconds=5))
    house.broker.go_away()
    await house.turn(timedelta(seconds=55))

    await house.restart(gone=["gone-3"])
    await live(house, timedelta(seconds=31))

    assert {row.state for row in house.executions()} == {State.SUCCEEDED}
    assert sorted(seen.attempts) == [(1, 2), (2, 1)]


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


def test_a_fault_of_one_step_costs_the_others_nothing_and_is_raised_at_the_end(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    house = House()
    due(house)
    done = list[str]()

    def look(name: str, *, fails: bool) -> Sequence[str]:
        if fails:
            raise TypeError("'<' not supported between instances of 'int' and 'str'")
        done.append(name)
        return ()

    for name, fails in (("overdue", True), ("end_waiting", False), ("gates", True)):
        answer = partial(look, name, fails=fails)
        monkeypatch.setattr(house.claims, name, lambda answer=answer, **_: answer())
    monkeypatch.setattr(house.claims, "regain", lambda **_: len(look("regain", fails=False)))

    with pytest.raises(TypeError):
        house.reconciler.tick(house.now)

    assert done == ["end_waiting", "regain"]
    assert sum("met a fault of ours" in line for line in lines()) == 2


@pytest.mark.parametrize(
    ("unanswered", "made"),
    [(["lapsed"], ["overdue", "end_waiting"]), (["lapsed", "overdue"], [])],
    ids=["one", "two"],
)
def test_a_round_ends_with_the_second_look_that_gets_no_answer(
    monkeypatch: pytest.MonkeyPatch, unanswered: Sequence[str], made: Sequence[str]
) -> None:
    house = House()
    due(house)
    looks = list[str]()

    def look(name: str) -> tuple[()]:
        if name in unanswered:
            raise LedgerUnavailable(f"{name} is not answered")
        looks.append(name)
        return ()

    for name in ("lapsed", "overdue", "end_waiting"):
        monkeypatch.setattr(house.claims, name, lambda name=name, **_: look(name))

    with pytest.raises(LedgerUnavailable, match="lapsed is not answered"):
        house.reconciler.tick(house.now)

    assert looks == made
