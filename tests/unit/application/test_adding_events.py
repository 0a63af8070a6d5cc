"""Adding events to a ledger that refuses some of them, or all."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import attrs
import pytest

from cronhare.application.events import adding
from cronhare.application.events.adding import MOST_REFUSALS, Adder
from cronhare.domain.execution import State
from cronhare.domain.lifecycle import events
from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.schedules.notify import EventKind
from cronhare.domain.schedules.schedule import OverlapPolicy
from cronhare.ports.errors import LedgerRefused
from tests.unit.application.endings import SUCCESS, always
from tests.unit.application.test_events import (
    EVERY_MINUTE,
    MINUTE,
    SHOP,
    Outpost,
    house,
    subscriptions,
    target,
)

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
MANY = 1_000
Refuses = Callable[[OutboxRow], bool]


@attrs.define
class Outbox:
    """Refuses a whole statement for one of its rows, and counts the statements."""

    refuses: Refuses
    added: set[str] = attrs.field(factory=set)
    refusals: int = 0

    def add(self, rows: Sequence[OutboxRow]) -> None:
        if any(map(self.refuses, rows)):
            self.refusals += 1
            raise LedgerRefused("a rule of somebody's")
        self.added |= {row.event_key for row in rows}


def rows(count: int = MANY) -> list[OutboxRow]:
    return [
        OutboxRow.of(events.trial("ops", now=NOW, id_=f"{n}"), "ops", source="shop", now=NOW)
        for n in range(count)
    ]


def adder(box: Outbox) -> Adder:
    return Adder(box)  # type: ignore[arg-type] # all that it asks of a store


def test_an_outbox_that_takes_nothing_is_asked_no_further() -> None:
    box = Outbox(lambda _row: True)
    adds = adder(box)

    is_over = adds.add(rows())
    again = adds.add(rows())

    assert (is_over, again) == (False, False)
    assert MOST_REFUSALS <= box.refusals <= MOST_REFUSALS + 1


def test_events_behind_a_few_that_are_refused_are_added_at_once() -> None:
    bad = {row.event_key for row in rows()[:3]}
    box = Outbox(lambda row: row.event_key in bad)

    assert adder(box).add(rows())

    assert len(box.added) == MANY - len(bad)


def test_events_among_many_that_are_refused_are_added_by_the_next_looks() -> None:
    bad = {row.event_key for row in rows()[::10]}
    box = Outbox(lambda row: row.event_key in bad)
    adds = adder(box)

    looks = 1
    while not adds.add(rows()):
        assert box.refusals <= looks * (MOST_REFUSALS + 1)
        looks += 1
        adds.begin()

    assert looks > 1
    assert len(box.added) == MANY - len(bad)


def test_what_was_refused_is_added_once_the_ledger_takes_it() -> None:
    box = Outbox(lambda _row: True)
    adds = adder(box)
    adds.add(rows())
    box.refuses = lambda _row: False

    adds.begin()

    assert adds.add(rows())
    assert len(box.added) == MANY


def test_skips_that_no_look_came_to_are_told_however_long_the_ledger_took_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adding, "MOST_REFUSALS", 1)
    made = house(always(SUCCESS))
    never = attrs.evolve(EVERY_MINUTE, overlap=OverlapPolicy.SKIP)
    made.schedules.save([never], source=SHOP, now=made.now)
    for _ in range(8):
        made.clock.advance(MINUTE)
        made.dispatcher.tick(made.now)
    skipped = [one for one in made.executions() if one.state is State.SKIPPED]
    outpost = Outpost(made, subscriptions(target("ops", EventKind.SKIPPED)))

    with monkeypatch.context() as refusing:
        refusing.setattr(outpost.store, "add", Outbox(lambda _row: True).add)
        for _ in range(10):
            outpost.announcer.round()
            made.clock.advance(MINUTE)
    outpost.announcer.round()

    assert len(skipped) > 1
    assert len(outpost.store.rows(limit=100)) == len(skipped)
