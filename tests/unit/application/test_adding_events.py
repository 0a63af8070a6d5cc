"""Adding events to a ledger that refuses some of them, or all."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import attrs

from cronhare.application.events.find import MOST_REFUSALS, Adder
from cronhare.domain.events.outbox import OutboxRow
from cronhare.ports import LedgerRefused
from tests.trial_event import trial

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
        OutboxRow.of(trial("ops", now=NOW, id_=f"{n}"), "ops", source="shop", now=NOW)
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
    assert box.refusals == 2 * MOST_REFUSALS


def test_events_behind_a_few_that_are_refused_are_added_at_once() -> None:
    bad = {row.event_key for row in rows()[:3]}
    box = Outbox(lambda row: row.event_key in bad)

    assert adder(box).add(rows())

    assert len(box.added) == MANY - len(bad)
