"""Leases: kept, given up in time, not lost by a sleep of the machine or a row that is held."""

from datetime import timedelta

import pytest

from cronhare.application.scheduling.lapses import LOOKS, PredecessorCleanup
from cronhare.application.worker.ledger import SHORT_PAUSES
from cronhare.domain.execution import State
from cronhare.domain.messages import Signer
from cronhare.domain.nodes import Node, silence
from cronhare.domain.retries.policy import REST
from cronhare.domain.topology import LANE_UNIT, MAIN_QUEUE
from cronhare.ports import LedgerUnavailable
from cronhare.ports.runner import StopReason
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import (
    SECOND,
    Seen,
    begin,
    both_begin,
    due,
)
from tests.unit.application.house import LEASE, House


async def test_a_renewal_without_an_answer_does_not_keep_a_lease_from_being_given_up() -> None:
    house = House(holds=True)
    await begin(house)
    stopped: list[StopReason] = []
    keeper = house.container.lease_keeper(stop=lambda _, reason: stopped.append(reason))
    held = keeper.hold(house.only, since=house.clock.monotonic())
    early: list[StopReason] = []

    def hang() -> None:
        house.clock.advance(LEASE * 2 / 3 - SECOND)
        keeper.watch()
        early.extend(stopped)
        house.clock.advance(SECOND)
        keeper.watch()
        keeper.has_ended(held)  # it was killed

    house.outage.begin("renew", calls=1)
    house.outage.takes["renew"] = hang
    keeper.renew()

    assert early == []
    assert stopped == [StopReason.LEASE_LOST]


async def test_what_somebody_gave_up_before_its_start_was_answered_is_not_run() -> None:
    house = House(holds=True)
    due(house)

    def answered_late() -> None:
        house.clock.advance(LEASE)
        house.outage.slow["start"] = lambda: house.reconciler.tick(house.now)

    house.outage.slow["start"] = answered_late
    await house.open()
    await house.settle()

    await house.worker.handle(house.deliveries.pop())

    assert (house.runner.running, house.only.state) == (frozenset(), State.RETRYING)
    assert house.worker.counters.fenced == 1


async def test_a_lease_is_kept_until_the_result_is_recorded() -> None:
    house = House(holds=True)
    await begin(house)
    house.outage.begin("finish")
    house.runner.release(house.only.id)
    await house.settle()
    house.clock.advance(timedelta(seconds=29))

    house.keeper.renew()
    still_ours = house.only.lease_until
    house.outage.end()
    await house.settle()

    assert still_ours == house.now + LEASE
    assert house.only.state is State.SUCCEEDED


# A machine that slept

HOUR = timedelta(hours=1)


async def running_and_watched() -> House:
    """A house that runs something, whose leases are looked at all the time."""
    house = House(holds=True)
    await begin(house)
    house.keeper.renew()
    house.keeper.watch()
    return house


async def test_what_a_renewal_would_keep_is_not_ended_after_a_suspend() -> None:
    house = await running_and_watched()

    house.clock.advance(HOUR)  # all of it slept, the ledger's host as well
    house.keeper.watch()
    house.keeper.renew()
    house.keeper.watch()
    await house.settle()

    assert house.runner.running == {house.only.id}
    assert house.only.lease_until == house.now + LEASE


async def test_whose_place_was_taken_in_a_suspend_is_ended_by_the_first_renewal() -> None:
    house = await running_and_watched()
    house.clock.advance(HOUR)
    house.reconciler.tick(house.now)

    house.keeper.watch()
    early = house.runner.running
    house.keeper.renew()
    await house.settle()

    assert (len(early), house.runner.running) == (1, frozenset())


async def test_a_ledger_that_does_not_answer_after_a_suspend_is_given_up() -> None:
    house = await running_and_watched()
    house.outage.begin("renew")
    house.clock.advance(HOUR)
    woke = house.clock.monotonic()

    while house.runner.running and house.clock.monotonic() - woke < LEASE.total_seconds():
        house.keeper.watch()
        house.keeper.renew()
        await house.settle()
        house.clock.advance(LEASE / 3)

    assert house.runner.running == frozenset()
    assert house.clock.monotonic() - woke <= 2 * LEASE.total_seconds() / 3


# What a worker settles at its start

THEY = Node(host="web-1", pid=1, place="0000000a", nonce="00000001")
ELSEWHERE = Node(host="web-1", pid=1, place="0000000b", nonce="00000002")


async def house_of_an_attempt() -> House:
    house = House(node=str(THEY), holds=True)
    await begin(house)
    return house


def settling(house: House, ourselves: Node) -> PredecessorCleanup:
    return PredecessorCleanup(
        claims=house.claims,
        reconciler=house.reconciler,
        ourselves=ourselves,
        lives=lambda _: True,
        lease=LEASE,
    )


async def test_an_earlier_life_elsewhere_is_settled_once_it_was_silent(lines: Lines) -> None:
    house = await house_of_an_attempt()
    cleanup, began = settling(house, ELSEWHERE), house.clock.monotonic()

    while (rest := cleanup.round()) is not None:
        house.clock.advance(timedelta(seconds=rest))

    assert house.clock.monotonic() - began == pytest.approx(silence(LEASE).total_seconds())
    assert (house.only.state, len(house.only.crashed_at)) == (State.RETRYING, 1)
    assert [line for line in lines() if "is lost unless it renews a lease within 25 s" in line]
    assert f"[WARN] Settled 1 attempt that {THEY} left behind: it is gone" in lines()


async def test_a_ledger_that_was_away_has_heard_no_renewals_and_proves_nothing() -> None:
    house = await house_of_an_attempt()
    cleanup = settling(house, ELSEWHERE)
    for _ in range(LOOKS):
        assert cleanup.round() is not None
    house.outage.begin("run_by", calls=1)
    with pytest.raises(LedgerUnavailable):
        cleanup.round()

    assert cleanup.round() is not None
    house.keeper.renew()

    assert cleanup.round() is None
    assert house.only.state is State.RUNNING


# An execution whose row somebody keeps locked: all others go on

TWO_THIRDS = LEASE * 2 / 3


async def test_a_start_whose_row_is_held_comes_back_each_minute(lines: Lines) -> None:
    house = House(signer=Signer(("secret",)), accepts_foreign=False)
    due(house)
    house.outage.held.add(house.only.id)
    await house.open()
    await house.work()

    house.clock.advance(REST - LANE_UNIT)
    await house.work()
    early = house.attempts.asked_to_start
    house.clock.advance(LANE_UNIT)
    await house.work()
    asked = house.attempts.asked_to_start - early
    house.outage.held.clear()
    house.clock.advance(REST)
    await house.work()

    assert asked == 1
    assert sum("Put off for a minute" in line for line in lines()) == 2
    assert (house.only.state, house.only.deaths) == (State.SUCCEEDED, 0)


async def end_held(house: House, *ids: int) -> None:
    """Let tasks end while somebody holds the rows of their executions."""
    house.outage.held.update(ids)
    for id_ in ids:
        house.runner.release(id_)
    await house.settle()


async def test_a_result_that_waits_for_a_row_gives_its_place_to_others() -> None:
    house = House(holds=True)
    house.add("one", schedule="1 12 2 3 *")
    due(house)
    await house.connection.consume([MAIN_QUEUE], prefetch=1, on_delivery=house.begin)
    await house.settle()
    [first] = house.runner.running

    await end_held(house, first)
    [second] = house.runner.running
    pending_ends = house.worker.pending_ends
    house.outage.held.clear()
    house.runner.release(second)
    await house.settle()

    assert (second != first, pending_ends, house.worker.pending_ends) == (True, 1, 0)
    assert [each.state for each in house.executions()] == [State.SUCCEEDED] * 2


async def test_a_copy_of_what_waits_to_be_recorded_does_not_begin_again() -> None:
    house = House(holds=True)
    await begin(house)
    await end_held(house, house.only.id)
    house.outage.held.clear()
    house.outage.begin("finish")

    house.publish_again()
    await house.settle()

    assert (house.runner.running, house.worker.counters.fenced) == (frozenset(), 1)


@pytest.mark.parametrize("then", ["drains", "is held"])
async def test_a_start_that_took_long_is_believed_if_it_cannot_be_asked_for_again(
    then: str,
) -> None:
    seen = Seen()
    house = House(script=seen)
    due(house)

    def takes_long() -> None:
        house.clock.advance(TWO_THIRDS - SECOND)
        if then == "drains":
            house.worker.drain()
        else:
            house.outage.held.add(house.only.id)

    house.outage.slow["start"] = takes_long
    await house.open_wide()
    for _ in SHORT_PAUSES:
        await house.settle()
    begun = list(seen.attempts)
    house.outage.held.clear()
    await house.settle()

    assert begun == [(house.only.id, 1)]
    assert seen.attempts == [(house.only.id, 1)]
    assert (house.only.state, house.only.attempt) == (State.SUCCEEDED, 1)


async def test_a_lease_whose_row_is_held_is_given_up_alone_and_in_time(lines: Lines) -> None:
    house = House(holds=True)
    held, other = await both_begin(house)
    house.outage.held.add(held)

    house.clock.advance(TWO_THIRDS - SECOND)
    house.keeper.renew()
    house.keeper.watch()
    await house.settle()
    early = house.runner.running
    house.clock.advance(SECOND)
    house.keeper.renew()
    await house.settle()

    assert early == {held, other}
    assert house.runner.running == {other}
    assert any("cannot be renewed: somebody else keeps its row locked" in one for one in lines())
