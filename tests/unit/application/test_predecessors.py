"""What a worker settles at its start, on a frozen clock."""

from datetime import timedelta

import pytest

from cronhare.application.scheduling.lapses import LOOKS, PredecessorCleanup
from cronhare.domain.execution import State
from cronhare.domain.nodes import Node, silence
from cronhare.ports import LedgerUnavailable
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import begin
from tests.unit.application.house import LEASE, House

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


def rounds(house: House, settling: PredecessorCleanup, *, renewed: bool = False) -> float:
    """Let it come to its end; tells how many seconds that took."""
    began = house.clock.monotonic()
    while (rest := settling.round()) is not None:
        house.clock.advance(timedelta(seconds=rest))
        if renewed:
            house.keeper.renew()
    return house.clock.monotonic() - began


async def test_an_earlier_life_elsewhere_is_settled_once_it_was_silent(lines: Lines) -> None:
    house = await house_of_an_attempt()

    took = rounds(house, settling(house, ELSEWHERE))

    assert took == pytest.approx(silence(LEASE).total_seconds())
    assert (house.only.state, len(house.only.crashed_at)) == (State.RETRYING, 1)
    assert [line for line in lines() if "is lost unless it renews a lease within 25 s" in line]
    assert f"[WARN] Settled 1 attempt that {THEY} left behind: it is gone" in lines()


async def test_a_ledger_that_was_away_has_heard_no_renewals_and_proves_nothing() -> None:
    house = await house_of_an_attempt()
    ours = settling(house, ELSEWHERE)
    for _ in range(LOOKS):
        assert ours.round() is not None
    house.outage.begin("run_by", calls=1)
    with pytest.raises(LedgerUnavailable):
        ours.round()

    assert ours.round() is not None
    house.keeper.renew()

    assert ours.round() is None
    assert house.only.state is State.RUNNING
