"""Pages of schedules of which others keep many locked: their neighbours go on at once."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from cronhare.adapters.sql.claims.lock_backoff import FIRST, LONGEST, LockBackoff
from cronhare.adapters.sql.claims.page_bisection import PageBisection
from cronhare.adapters.sql.claims.page_planner import PagePlanner
from cronhare.adapters.sql.cooldown import Cooldown
from cronhare.adapters.sql.dialect import Locked
from cronhare.adapters.sql.transactions.lock_waits import NOT_AT_ALL, lock_wait
from cronhare.domain.schedules.planning import Plan
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PAGE = 16


class Locker:
    """Keeps schedules locked, of which all are due at every look; counts what that costs."""

    def __init__(self, locked: Collection[int], *, of: int, least_wait: float = 0.01) -> None:
        self.locked = set(locked)
        self.passed = 0.0
        self.pages = PageBisection(Cooldown(), Cooldown(), lambda: self.passed)
        self._all = range(1, of + 1)
        self._least_wait = least_wait

    def look(self, now: datetime) -> list[int]:
        """Take what is due as the dispatcher does, and begins anew after an outage."""
        taken: list[int] = []

        def take(limit: int, planner: PagePlanner) -> int:
            out = {*self.pages.passed_over(now), *taken}
            page = [id_ for id_ in self._all if id_ not in out][:limit]
            rows: Any = [
                SimpleNamespace(id=id_, planned_id=id_, name=f"report-{id_}") for id_ in page
            ]
            planner.note(rows)
            if self.locked.intersection(page):
                asked = lock_wait()
                is_hurried = asked is not None and asked.seconds == NOT_AT_ALL
                self.passed += self._least_wait if is_hurried else 3.0
                raise Locked("somebody keeps rows locked")
            taken.extend(page)
            return len(page)

        while self._take(take, now):
            pass
        return taken

    def looked(self, now: datetime) -> datetime:
        """Look, and tell when the next look is due."""
        before = self.passed
        self.look(now)
        return now + max((self.passed - before) * SECOND, 5 * SECOND)

    def _take(self, take: Any, now: datetime) -> bool:  # noqa: ANN401
        try:
            return bool(
                self.pages.take(PAGE, lambda _: Plan(), take, series="due", now=now),
            )
        except Locked:
            return True


@pytest.mark.parametrize("of", [12, 80, 300])
def test_however_many_are_locked_their_neighbours_wait_once(of: int) -> None:
    innocent = {of // 2, of}
    locker = Locker(set(range(1, of + 1)) - innocent, of=of)

    assert set(locker.look(NOON)) == innocent
    assert locker.passed < 3 + of * 0.02
    for minute in range(1, 30):
        before = locker.passed
        assert set(locker.look(NOON + minute * LONGEST)) == innocent
        assert locker.passed - before <= max(of, PAGE) * 0.02


def test_where_each_takes_a_second_they_are_asked_for_in_a_part_of_the_time() -> None:
    locker = Locker(range(1, 41), of=50, least_wait=1.0)
    now, innocents = NOON, 0
    locker.look(now)

    for _ in range(200):
        before = locker.passed
        innocents += len(locker.look(now))
        now += max((locker.passed - before) * SECOND, 5 * SECOND)

    assert innocents == 200 * 10
    assert locker.passed * SECOND < (now - NOON) / 2


def test_what_is_free_again_is_taken_once_it_is_asked_for() -> None:
    locker = Locker({3}, of=5)

    assert locker.look(NOON) == [1, 2, 4, 5]
    locker.locked.clear()

    assert 3 not in locker.look(NOON + SECOND)
    assert 3 in locker.look(NOON + LONGEST)


def test_the_log_names_what_is_put_off_and_says_when_that_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    locker = Locker({3}, of=5)

    with caplog.at_level("INFO"):
        locker.look(NOON)
        locker.look(NOON + 2 * SECOND)
        locker.locked.clear()
        locker.look(NOON + LONGEST)
        locker.look(NOON + 2 * LONGEST)

    held, back = [(record.__dict__["action"], record.getMessage()) for record in caplog.records]
    assert held == (
        "schedule.held",
        "Schedule report-3 is put off for 2 s: somebody keeps rows locked",
    )
    assert back == ("schedule.back", "Schedule report-3 is put off no more: it could be taken")


def test_what_is_locked_again_and_again_is_asked_for_ever_more_rarely() -> None:
    put_off = LockBackoff()
    waits, now = [], NOON
    for _ in range(8):
        waits.append(put_off.note(7, now, timedelta(0)))
        assert list(put_off.at(now)) == [7]
        now += waits[-1]
        assert not put_off.at(now)

    assert waits[0] == FIRST
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST
    assert not put_off.is_any_known(now + LONGEST)
    assert put_off.note(7, now + LONGEST, timedelta(0)) == FIRST


def test_the_more_are_locked_the_longer_they_are_put_off() -> None:
    put_off = LockBackoff()

    waits = [put_off.note(id_, NOON, SECOND) for id_ in range(1, 13)]

    assert waits[-1] == 120 * SECOND
    assert len(put_off.at(NOON + 50 * SECOND)) == 7


def test_a_clock_that_is_set_back_puts_nothing_off_for_longer() -> None:
    put_off = LockBackoff()
    put_off.note(7, NOON, timedelta(0))

    assert not put_off.at(NOON - LONGEST)


def test_however_long_many_were_to_rest_all_are_asked_for_soon_once_they_are_free() -> None:
    locker = Locker(range(1, 241), of=240, least_wait=1.0)
    now = NOON
    while now < NOON + 3_600 * SECOND:  # by then some rest for forty minutes
        now = locker.looked(now)
    locker.locked.clear()
    free_at, taken = now, set[int]()

    while len(taken) < 240:
        taken.update(locker.look(now))
        now += 5 * SECOND

    assert now - free_at < 90 * SECOND


def test_one_that_is_free_again_has_no_more_than_two_others_asked_for() -> None:
    put_off = LockBackoff()
    for id_ in range(1, 13):
        put_off.note(id_, NOON, SECOND)

    put_off.free([12, 99], NOON)

    assert sorted(put_off.at(NOON)) == list(range(3, 12))
    assert put_off.note(1, NOON, timedelta(0)) > FIRST


def test_a_table_that_refuses_all_is_given_up_after_a_page_of_them() -> None:
    pages = PageBisection(Cooldown(), Cooldown())
    looked: list[int] = []

    def take(limit: int, planner: PagePlanner) -> int:
        page = [id_ for id_ in range(1, 40) if id_ not in pages.passed_over(NOON)][:limit]
        rows: Any = [SimpleNamespace(id=id_, planned_id=id_, name=f"report-{id_}") for id_ in page]
        planner.note(rows)
        looked.extend(page[:1] if len(page) == 1 else [])
        if page:
            raise LedgerRefused("not that")
        return 0

    with pytest.raises(LedgerUnavailable, match="of 4 schedules, one after another, none"):
        pages.take(3, lambda _: Plan(), take, series="due", now=NOON)

    assert set(looked) == {1, 2, 3, 4}
