"""What every ledger promises of notes of who holds a message that came again."""

import attrs

from cronhare.domain.retries.retry import KEPT_FOR, Hold, Holder
from cronhare.ports.records import Retention
from tests.integration.ledgers import MINUTE, SECOND, Ledger, at_once
from tests.integration.test_node_store_contract import ANT


def holder(node: str) -> Holder:
    return Holder(node=node, host="ant", boot="first")


def hold(ledger: Ledger, node: str, message: str = "7-1") -> list[str]:
    found = ledger.redeliveries.hold(message, holder=holder(node), now=ledger.now)
    return [each.holder.node for each in found]


def test_who_takes_a_message_is_told_who_took_it_and_never_let_go(ledger: Ledger) -> None:
    first = hold(ledger, "a")
    ledger.clock.advance(SECOND)
    second = hold(ledger, "b")
    ledger.redeliveries.let_go("7-1", node="b")
    ledger.redeliveries.let_go("7-1", node="nobody")
    third = hold(ledger, "c")
    other = hold(ledger, "d", message="8-1")

    [note] = ledger.redeliveries.hold("7-1", holder=holder("c"), now=ledger.now)

    assert (first, second, third, other) == ([], ["a"], ["a"], [])
    assert note == Hold(holder=holder("a"), at=ledger.now - SECOND)


def test_each_note_tells_when_its_node_was_seen_last(ledger: Ledger) -> None:
    hold(ledger, ANT.name)
    hold(ledger, "b")
    ledger.nodes.report(attrs.evolve(ANT, seen_at=ledger.now + SECOND), kept_for=MINUTE)
    ledger.nodes.report(attrs.evolve(ANT, name="c", seen_at=ledger.now), kept_for=MINUTE)

    found = ledger.redeliveries.hold("7-1", holder=holder("c"), now=ledger.now)

    seen = {each.holder.node: each.seen_at for each in found}
    assert seen == {ANT.name: ledger.now + SECOND, "b": None}


def test_a_node_that_ends_in_good_order_leaves_no_note(ledger: Ledger) -> None:
    hold(ledger, "a")
    hold(ledger, "b")

    ledger.nodes.remove("a")

    assert hold(ledger, "c") == ["b"]


def test_of_many_at_once_each_has_its_note(ledger: Ledger) -> None:
    at_once(4, lambda number: hold(ledger, f"node-{number}"))

    assert sorted(hold(ledger, "z")) == [f"node-{number}" for number in range(4)]


def test_old_notes_are_forgotten(ledger: Ledger) -> None:
    hold(ledger, "a")
    hold(ledger, "a", message="8-1")
    ledger.clock.advance(KEPT_FOR + MINUTE)

    found = hold(ledger, "b")
    ledger.records.clean_up(now=ledger.now, retention=Retention())
    ledger.clock.move_to(ledger.now - MINUTE)  # as of then those notes are not too old

    assert found == []
    assert hold(ledger, "b", message="8-1") == []
    assert hold(ledger, "c") == ["b"]
