"""What one message says of many events."""

from typing import Any

import attrs
import msgspec
import pytest

from cronhare.domain.events.outbox import LARGEST_EVENT, SHOWN, OutboxRow, Turn, decide, digest
from cronhare.domain.events.targets import type_of
from tests.trial_event import trial
from tests.unit.executions import NOON


def rows(count: int, **changes: Any) -> list[OutboxRow]:  # noqa: ANN401
    row = OutboxRow.of(trial("ops", now=NOON, id_="1"), "ops", source="shop", now=NOON)
    return [attrs.evolve(row, id=number, **changes) for number in range(1, count + 1)]


def data(row: OutboxRow) -> Any:  # noqa: ANN401
    return msgspec.json.decode(row.payload)["data"]


@pytest.mark.parametrize(
    ("waiting", "lately", "turn"),
    [
        (5, 0, Turn.EACH),
        (6, 0, Turn.TOGETHER),
        (2, 3, Turn.EACH),
        (3, 3, Turn.HOLD),
        (1_000, 5, Turn.HOLD),
    ],
)
def test_more_than_so_many_within_a_minute_are_told_together(
    waiting: int, lately: int, turn: Turn
) -> None:
    assert decide(waiting, lately=lately, most=5) is turn


def test_a_digest_counts_and_has_the_first_few() -> None:
    names = ["a", "a", "b", "c", "d", "e", "f"]
    many = [attrs.evolve(row, schedule_name=name) for row, name in zip(rows(7), names, strict=True)]

    one = digest(many)

    assert (one.event, type_of(one.event), one.target) == ("digest", "digest", "ops")
    said = data(one)
    assert said["alert"]["message"] == (
        "7 events of schedule.failed: a (2), b (1), c (1), d (1), e (1), and 1 other"
    )
    assert (said["count"], said["event"], len(said["first"])) == (7, "schedule.failed", SHOWN)
    assert one.event_key == digest(many).event_key


def test_a_digest_of_long_events_is_no_longer_than_an_event_may_be() -> None:
    long = '{"data":{"x":"' + "x" * (LARGEST_EVENT // 2 - 30) + '"}}'

    one = digest(rows(9, payload=long))

    assert len(one.payload) < LARGEST_EVENT
    assert (len(data(one)["first"]), data(one)["count"]) == (1, 9)


def test_the_worst_of_them_says_how_bad_it_is() -> None:
    payloads = [
        '{"data":{"metadata":{"alert":{"severity":"critical"}}}}',
        '{"data":{"alert":{"severity":"high"}}}',
        '{"data":{"metadata":{}}}',
    ]
    many = [attrs.evolve(row, payload=each) for row, each in zip(rows(3), payloads, strict=True)]

    severities = [data(digest(many[at:]))["alert"]["severity"] for at in range(3)]
    assert severities == ["critical", "high", "info"]
