"""Ends that the ledger refuses: what the task did is told, and why it is not recorded."""

import pytest

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.topology import QUARANTINE_QUEUE
from cronhare.ports.attempts import Apart
from tests.scripted_runner import Script, succeed
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import SECOND, due, live, run
from tests.unit.application.endings import always, failure
from tests.unit.application.house import LEASE, House
from tests.unit.application.outages import REFUSED
from tests.unit.application.test_reconcile import vanish

FAILED = always(failure("no such report", stack="at report:7"))


def refusing(apart: Apart, script: Script = succeed) -> House:
    house = House(script=script)
    house.outage.refused = apart
    return house


def loud(lines: Lines) -> list[str]:
    """Leave of the log what somebody should look at."""
    return [line for line in lines() if line.startswith(("[WARN]", "[ERROR]"))]


@pytest.mark.parametrize(
    ("apart", "script", "begins", "cure"),
    [
        (Apart.ARCHIVED, succeed, "Task quarantined: ", "`cronhare failed discard ID`"),
        (Apart.ARCHIVED, FAILED, "Task quarantined: ", "`cronhare failed replay ID`"),
        (Apart.UNARCHIVED, succeed, "Task quarantined, without a row ", "nothing to run again"),
        (Apart.UNARCHIVED, FAILED, "Task quarantined, without a row ", "`cronhare run report`"),
        (Apart.NEITHER, succeed, "Task cannot even be quarantined: ", "may be run again"),
    ],
)
async def test_an_end_that_is_refused_is_one_line(
    lines: Lines, apart: Apart, script: Script, begins: str, cure: str
) -> None:
    await run(refusing(apart, script))

    [line] = loud(lines)
    assert line.startswith("[ERROR] ")
    assert f"] {begins}" in line
    assert f"{REFUSED}. Mend what refuses it" in line
    assert cure in line
    assert ("at report:7" in line) == (script is FAILED)


async def test_what_is_quarantined_for_its_end_is_counted_and_sent_once(lines: Lines) -> None:
    house = refusing(Apart.ARCHIVED)
    await run(house)

    await live(house, 10 * Graces().ended, 10 * SECOND)

    assert house.only.state is State.QUARANTINED
    assert (house.worker.counters.ended, house.worker.counters.superseded) == (1, 0)
    assert len(house.messages(QUARANTINE_QUEUE)) == 1
    assert len(loud(lines)) == 1


async def test_what_cannot_even_be_quarantined_counts_as_lost_later() -> None:
    house = refusing(Apart.NEITHER)
    await run(house)
    before = house.only

    house.outage.refused = None
    house.clock.advance(LEASE)
    lost = house.reconciler.tick(house.now).lost

    assert (before.state, house.messages(QUARANTINE_QUEUE)) == (State.RUNNING, [])
    assert (house.worker.counters.ended, house.worker.counters.superseded) == (0, 1)
    assert (lost, house.only.state) == (1, State.RETRYING)


@pytest.mark.parametrize(("apart", "lost"), [(Apart.ARCHIVED, 1), (Apart.NEITHER, 0)])
def test_a_loss_that_is_refused_is_told_and_counts_once_it_is_over(
    lines: Lines, apart: Apart, lost: int
) -> None:
    house = refusing(apart)
    due(house)
    vanish(house)
    house.clock.advance(LEASE)

    found = house.reconciler.tick(house.now).lost

    [line] = loud(lines)
    assert REFUSED in line
    assert (found, len(house.messages(QUARANTINE_QUEUE))) == (lost, lost)


def test_the_cleanup_tells_that_its_end_is_refused(lines: Lines) -> None:
    house = refusing(Apart.NEITHER)
    house.dispatcher.tick(house.now)
    house.clock.advance((house.claims.next_due() or house.now) - house.now)

    house.dispatcher.tick(house.now)

    assert [REFUSED in line for line in loud(lines)] == [True]
