"""Of what works on a ledger people are alerted."""

from datetime import datetime, timedelta
from typing import Any

import attrs

from cronhare.domain.events.judging import ALERTED_AFTER, QueueSigns, SystemSigns, judge_system
from cronhare.domain.events.rules import ABOUT
from cronhare.domain.nodes import DISCONNECTED_AFTER, PRESUMED_DEAD_AFTER, NodeReport, served
from tests.unit.executions import NOON

MINUTE = timedelta(minutes=1)


def node(name: str = "web-1-7", *, seen: datetime = NOON, **changes: Any) -> NodeReport:  # noqa: ANN401
    given: dict[str, Any] = {"role": "worker", "host": "web-1", "started_at": NOON - MINUTE}
    return NodeReport(name=name, version="1", seen_at=seen, **{**given, **changes})


def messages(**signs: Any) -> dict[str, str]:  # noqa: ANN401
    found = [*judge_system(SystemSigns(**signs), NOON)]
    for each in found:
        assert each.data["alert"]["severity"] == ABOUT[each.rule].severity
    return {f"{each.rule}:{each.subject}": each.message for each in found}


def test_what_is_due_and_not_claimed_alerts_whether_or_not_a_scheduler_reports() -> None:
    late = NOON - ALERTED_AFTER - timedelta(seconds=1)

    assert messages(earliest_due=NOON - ALERTED_AFTER) == {}
    alone = messages(earliest_due=late)["scheduler:"]
    assert alone.endswith("and no scheduler reports itself")
    there = messages(earliest_due=late, nodes=[node(role="scheduler")])["scheduler:"]
    assert there.endswith("though 1 scheduler reported lately")


def test_what_waits_for_the_broker_or_for_a_worker_alerts() -> None:
    signs = QueueSigns(runs=3, since=NOON - 5 * MINUTE, execution=106)
    older = attrs.evolve(signs, since=NOON - 9 * MINUTE, execution=105)

    said = messages(unsent={"a": signs, "b": older}, unserved={"cron_scheduler.mail": signs})

    assert said["unsent:"].startswith(
        "6 runs (execution 105) for a, b could not be handed to the broker since 2026"
    )
    assert "in the queue cron_scheduler.mail since" in said["queue:cron_scheduler.mail"]


def test_what_stays_alive_and_has_no_worker_waits_for_that_and_not_for_the_broker() -> None:
    signs = QueueSigns(runs=1, since=NOON - 5 * MINUTE, execution=106)
    own = "cron_standalone.pump"

    [alone] = messages(unsent={own: signs}).items()
    [served_] = messages(unsent={own: signs}, nodes=[node(queues=(own,))])

    assert alone[0] == f"queue:{own}"
    assert alone[1].startswith(f"1 run for the queue {own} since ")
    assert alone[1].endswith("and no worker serves it")
    assert served_ == "unsent:"


def test_a_silent_node_alerts_until_another_takes_its_place() -> None:
    silent = node(seen=NOON - PRESUMED_DEAD_AFTER - timedelta(seconds=1))
    elsewhere = node("web-2-7", host="web-2", started_at=NOON)
    sibling = node("web-1-6", started_at=silent.seen_at - timedelta(seconds=1))
    successor = node("web-1-8", started_at=NOON)
    scheduler = node("web-1-9", role="scheduler", started_at=NOON)

    assert messages(nodes=[node()]) == {}
    assert [*messages(nodes=[silent, elsewhere, sibling, scheduler])] == ["node:web-1-7"]
    assert messages(nodes=[silent, successor]) == {}
    assert messages(nodes=[node(seen=NOON + 5 * MINUTE)]) == {}  # a clock that was ahead


def test_while_the_ledger_was_away_nobody_could_report_himself() -> None:
    seen = NOON - 2 * MINUTE
    dead = node(seen=seen)

    def judged(since: timedelta) -> list[str]:
        return [*messages(nodes=[dead, node("b", host="b")], watched_since=NOON - since)]

    assert judged(timedelta(seconds=45)) == []
    assert judged(timedelta(seconds=46)) == ["node:web-1-7"]
    assert served([node(queues=("a",), seen=seen)], NOON, watched_since=NOON) == {"a"}


def test_while_the_ledger_was_away_nobody_could_claim_or_send_anything() -> None:
    long_ago = NOON - 10 * MINUTE
    late = QueueSigns(runs=1, since=long_ago)

    def judged(since: timedelta) -> list[str]:
        watched = {"watched_since": NOON - since}
        return [*messages(earliest_due=long_ago, unsent={"a": late}, **watched)]

    assert judged(ALERTED_AFTER) == []
    assert judged(ALERTED_AFTER + timedelta(seconds=1)) == ["scheduler:", "unsent:"]


def test_workers_that_are_cut_off_from_their_broker_serve_nothing_and_are_named() -> None:
    long_ago = NOON - DISCONNECTED_AFTER - timedelta(seconds=1)
    cut_off = node(queues=("a", "b"), consumed_at=long_ago)
    lately = node("b", queues=("b",), consumed_at=NOON - DISCONNECTED_AFTER)
    older = node("c", queues=("c",))  # which does not say
    nodes = [cut_off, lately, older]

    said = messages(nodes=nodes, unserved={"a": QueueSigns(runs=1, since=long_ago)})

    assert served(nodes, NOON) == {"b", "c"}
    assert said["queue:a"].endswith("and web-1-7 is cut off from the broker, or it is away")
    assert served(nodes, NOON, watched_since=NOON - MINUTE) == {"a", "b", "c"}
