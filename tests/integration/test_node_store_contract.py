"""What every ledger promises of nodes, and of who holds a message that came again."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs

from cronhare.application.heartbeat import Heartbeat
from cronhare.domain.nodes import (
    DISCONNECTED_AFTER,
    FORGOTTEN_AFTER,
    NodeReport,
    served,
)
from cronhare.domain.retries.retry import KEPT_FOR, Hold, Holder
from cronhare.ports.records import Retention
from tests.integration.ledgers import HOUR, MINUTE, NOON, ON_ONE, SECOND, Ledger, at_once

ANT = NodeReport(
    name="ant-1-0a1b2c3d4e5f6071",
    role="worker",
    host="ant",
    version="0.1.0",
    started_at=NOON,
    seen_at=NOON,
    queues=("cron_scheduler", "reports"),
    concurrency=8,
    running=3,
    clock_offset=timedelta(milliseconds=-1_500),
    consuming=True,
    consumed_at=NOON - SECOND,
    source="jobs.toml",
    digest="0a1b2c3d4e5f",
)
BEE = NodeReport(
    name="bee-2-0a1b2c3d4e5f6071",
    role="scheduler",
    host="bee",
    version="0.1.0",
    started_at=NOON,
    seen_at=NOON,
)


def report(ledger: Ledger, *reports: NodeReport) -> list[bool]:
    """Report nodes, and say of each whether it is to be drained."""
    return [ledger.nodes.report(each, kept_for=HOUR) for each in reports]


def listed(ledger: Ledger) -> list[NodeReport]:
    """List the reports by name."""
    found = ledger.nodes.nodes(now=NOON, limit=9)
    assert (found.unread, found.broken) == (0, 0)
    return sorted(found.reports, key=lambda each: each.name)


def test_a_report_replaces_the_last_one_of_its_node_alone(ledger: Ledger) -> None:
    later = attrs.evolve(ANT, seen_at=NOON + SECOND, running=None, queues=())

    report(ledger, ANT, BEE, later)

    assert listed(ledger) == [later, BEE]


def test_who_was_silent_for_long_is_forgotten_when_another_begins(ledger: Ledger) -> None:
    seen = attrs.evolve(ANT, seen_at=NOON + MINUTE)
    report(ledger, ANT, BEE, seen)
    later = attrs.evolve(seen, seen_at=NOON + HOUR + SECOND)

    report(ledger, later)
    before = listed(ledger)
    new = attrs.evolve(BEE, name="bee-3-0a1b2c3d4e5f6071", seen_at=NOON + HOUR + SECOND)
    report(ledger, new)

    assert before == [later, BEE]
    assert listed(ledger) == [later, new]


def test_those_that_were_seen_last_are_listed_and_all_are_counted(ledger: Ledger) -> None:
    first, third, second = (
        attrs.evolve(BEE, name=f"{name}-1-0a1b2c3d4e5f6071", seen_at=NOON + passed)
        for name, passed in (("c", SECOND), ("a", -SECOND), ("b", -SECOND))
    )
    report(ledger, third, second, first)

    found = ledger.nodes.nodes(now=NOON, limit=2)

    assert list(found.reports) == [first, third]
    assert (found.known, found.unread, found.broken) == (3, 1, 0)


def test_a_node_is_told_with_its_reports_that_it_is_to_be_drained(ledger: Ledger) -> None:
    assert not ledger.nodes.drain(ANT.name, asked_at=NOON)  # it is not there
    assert report(ledger, ANT, ANT, BEE) == [False, False, False]

    assert ledger.nodes.drain(ANT.name, asked_at=NOON)
    assert ledger.nodes.drain(ANT.name, asked_at=NOON + MINUTE)  # it is since the first time
    assert report(ledger, ANT, ANT, BEE) == [True, True, False]
    assert listed(ledger) == [attrs.evolve(ANT, drain_asked_at=NOON), BEE]

    assert ledger.nodes.drain(ANT.name, asked_at=None)
    assert report(ledger, ANT) == [False]
    assert listed(ledger) == [ANT, BEE]


def heartbeat_of_ant(
    ledger: Ledger,
    queues: Sequence[str] = ("cron_scheduler",),
    **how: Any,  # noqa: ANN401 - of `Heartbeat`
) -> Heartbeat:
    return Heartbeat(
        nodes=ledger.nodes,
        clock=BeatingClock(ledger),
        name="ant",
        role="worker",
        host="web-1",
        version="1",
        queues=tuple(queues),
        **how,
    )


@ON_ONE
def test_a_drained_node_that_was_forgotten_is_drained_still(ledger: Ledger) -> None:
    beat = heartbeat_of_ant(ledger, told=(heard := list[bool]()).append)
    beat.round()
    ledger.nodes.drain("ant", asked_at=ledger.now)
    beat.round()
    ledger.clock.advance(FORGOTTEN_AFTER + SECOND)
    ledger.nodes.report(attrs.evolve(BEE, seen_at=ledger.now), kept_for=FORGOTTEN_AFTER)

    beat.round()
    beat.round()
    ledger.nodes.drain("ant", asked_at=None)
    beat.round()
    beat.round()

    assert heard == [False, True, True, True, False, False]


@ON_ONE
def test_a_worker_says_when_it_was_connected_to_its_queues_last(ledger: Ledger) -> None:
    connected = False
    beat = heartbeat_of_ant(ledger, is_connected=lambda: connected)

    def beats() -> datetime | None:
        ledger.clock.advance(SECOND)
        beat.round()
        [found] = ledger.nodes.nodes(now=ledger.now, limit=9).reports
        return found.consumed_at

    began = ledger.now + SECOND
    assert [beats(), beats()] == [began, began]  # it has not been for longer than it is there
    connected = True
    assert [beats(), beats()] == [began + 2 * SECOND, began + 3 * SECOND]
    connected = False
    assert beats() == began + 3 * SECOND


@ON_ONE
def test_a_queue_that_a_worker_is_refused_for_long_is_none_that_it_serves(ledger: Ledger) -> None:
    refused: set[str] = set()
    connected = True
    beat = heartbeat_of_ant(
        ledger,
        queues=("mails", "reports"),
        is_connected=lambda: connected,
        left_out=lambda: refused,
    )

    def serves(after: timedelta = SECOND) -> list[str]:
        ledger.clock.advance(after)
        beat.round()
        reports = ledger.nodes.nodes(now=ledger.now, limit=9).reports
        return sorted(served(reports, ledger.now))

    both = ["mails", "reports"]
    assert serves() == both
    refused.add("mails")
    assert [serves(), serves(DISCONNECTED_AFTER - SECOND)] == [both, both]
    connected = False  # a refusal may cost the connection, and is none the younger for it
    assert serves() == ["reports"]
    connected = True
    assert serves() == ["reports"]
    refused.add("reports")
    assert [serves(), serves(DISCONNECTED_AFTER)] == [["reports"], []]
    refused.clear()
    assert serves() == both


class BeatingClock:
    """The ledger's, which no node is off."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def now(self) -> datetime:
        return self._ledger.now

    def measure(self) -> timedelta:
        return timedelta(0)


# Messages that came again


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


def test_of_many_at_once_each_has_its_note_unless_it_ends_in_good_order(ledger: Ledger) -> None:
    at_once(4, lambda number: hold(ledger, f"node-{number}"))

    ledger.nodes.remove("node-0")

    assert sorted(hold(ledger, "z")) == [f"node-{number}" for number in (1, 2, 3)]


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
