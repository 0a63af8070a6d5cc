"""How many of those whose rows are held may look for them, and for how long."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta

import pytest

from cronhare.application.worker.lock_waits import LIMITED_FOR, PAUSES, LockWaits, Places
from cronhare.ports.ledger import LedgerBusy
from tests.frozen_clock import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(datetime(2026, 3, 2, 12, tzinfo=UTC))


def look_in_vain(held: LockWaits) -> None:
    """Let one look until it gives its place away."""
    with suppress(LedgerBusy), held.place(returned=False) as looks:
        assert len(tuple(looks)) == len(PAUSES)
        raise LedgerBusy("execution 1 waits")


def all_look(held: LockWaits, number: int) -> int:
    """Let so many ask at a time, all of them for what is held; tell how many look again."""
    with ExitStack() as stack:
        asking = [stack.enter_context(held.place(returned=False)) for _ in range(number)]
        return sum(_looks(looks) for looks in asking)


def _looks(looks: Iterator[float]) -> bool:
    return next(looks, None) is not None


@pytest.mark.parametrize("places", [1, 4, 16])
def test_at_first_all_look_for_a_moment(clock: FrozenClock, places: int) -> None:
    held = LockWaits(clock.monotonic, places=Places(places))

    assert all_look(held, places) == places


@pytest.mark.parametrize(("places", "share"), [(1, 0), (3, 0), (4, 1), (16, 4)])
def test_after_one_has_looked_in_vain_no_more_look_than_their_share(
    clock: FrozenClock, places: int, share: int
) -> None:
    held = LockWaits(clock.monotonic, places=Places(places))
    look_in_vain(held)

    hurried = all_look(held, places)
    again = all_look(held, places)
    clock.advance(timedelta(seconds=LIMITED_FOR))

    assert (hurried, again) == (share, share)
    assert all_look(held, places) == places


def test_what_comes_back_asks_once(clock: FrozenClock) -> None:
    held = LockWaits(clock.monotonic, places=Places(16))

    with held.place(returned=True) as looks:
        assert tuple(looks) == ()


@pytest.mark.parametrize(("places", "at_once"), [(1, 1), (3, 1), (4, 1), (16, 4)])
def test_of_what_comes_back_few_ask_at_a_time(
    clock: FrozenClock, places: int, at_once: int
) -> None:
    held = LockWaits(clock.monotonic, places=Places(places))
    asking = 0

    with ExitStack() as stack:
        while held.has_room:
            stack.enter_context(held.place(returned=True))
            asking += 1

    assert (asking, held.has_room) == (at_once, True)


def answered(held: LockWaits, *, returned: bool) -> None:
    """Let one be answered at once."""
    with held.place(returned=returned):
        pass


def test_what_is_held_is_asked_for_in_vain_until_something_that_came_back_is_answered(
    clock: FrozenClock,
) -> None:
    held = LockWaits(clock.monotonic, places=Places(4))

    seen = [held.last_failed]
    look_in_vain(held)
    seen.append(held.last_failed)
    answered(held, returned=False)
    seen.append(held.last_failed)
    answered(held, returned=True)

    assert [*seen, held.last_failed] == [False, True, True, False]
