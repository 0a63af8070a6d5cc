"""Publishing batches while the next one is being claimed."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from cronhare.application.scheduling.dispatch import AT_ONCE, Dispatcher
from cronhare.domain.execution import State
from cronhare.ports import LedgerUnavailable
from cronhare.ports.broker import Envelope, Published
from tests.trial_broker import TrialBroker
from tests.unit.application.house import NOON, House

PATIENCE = 5.0
MINUTE = timedelta(minutes=1)


class SlowBroker(TrialBroker):
    """Publishes once it may."""

    def __init__(self, house: House) -> None:
        super().__init__(house.clock)
        self.sizes: list[int] = []
        self.entered = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.was_waited_for = True

    def publish(self, batch: Sequence[Envelope]) -> Sequence[Published]:
        self.sizes.append(len(batch))
        self.entered.release()
        self.was_waited_for &= self.may_go_on.wait(PATIENCE)
        return super().publish(batch)


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_ONCE) as executor:
        yield executor


def dispatcher_of(house: House, executor: ThreadPoolExecutor, *, batch: int) -> Dispatcher:
    return Dispatcher(
        claims=house.claims,
        publisher=house.publisher,
        executor=executor,
        node=house.node,
        batch=batch,
    )


def due(house: House, count: int) -> None:
    for number in range(count):
        house.add(f"report-{number}")
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)


def test_the_next_batch_is_claimed_while_two_are_being_published(
    house: House, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = SlowBroker(house)
    house.build(broker=broker)
    due(house, 5)
    claim_due, looks = house.claims.claim_due, iter(range(10))

    def claim_and_let_go(**asked: object) -> object:
        batch = claim_due(**asked)  # type: ignore[arg-type]
        if next(looks) == 2:
            assert all(broker.entered.acquire(timeout=PATIENCE) for _ in range(AT_ONCE))
            broker.may_go_on.set()
        return batch

    monkeypatch.setattr(house.claims, "claim_due", claim_and_let_go)
    tick = dispatcher_of(house, executor, batch=2).tick(house.now)

    assert broker.was_waited_for
    assert broker.sizes == [2, 2, 1]
    assert (tick.claimed, tick.published) == (5, 5)


def test_what_was_claimed_when_the_ledger_went_away_is_sent_again_later(
    house: House, executor: ThreadPoolExecutor
) -> None:
    due(house, 4)
    dispatcher = dispatcher_of(house, executor, batch=2)

    house.outage.begin("mark_published", calls=1)
    with pytest.raises(LedgerUnavailable):
        dispatcher.tick(house.now)
    states = sorted(row.state for row in house.executions() if row.due_at > NOON)
    house.clock.advance(timedelta(seconds=10))
    house.reconciler.tick(house.now)

    assert states == [State.CLAIMED] * 2 + [State.PUBLISHED] * 2, "the batch in hand was sent"
    assert {row.state for row in house.executions() if row.due_at > NOON} == {State.PUBLISHED}
