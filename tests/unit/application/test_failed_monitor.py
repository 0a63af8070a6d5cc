import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from cronhare.application.worker.foreign import FailedMonitor
from cronhare.application.worker.ledger import SHORT_PAUSES
from cronhare.application.worker.unhandled import DEFERRED_FOR
from cronhare.domain.execution import State
from cronhare.domain.messages import Signer, failed_body
from cronhare.domain.topology import FAILED_QUEUE, QUARANTINE_QUEUE, ToFailed
from cronhare.ports import LedgerBusy
from cronhare.ports.broker import Delivery, Envelope, Message
from tests.unit.application.conftest import Lines
from tests.unit.application.deliveries import due, open_room
from tests.unit.application.house import House

BODY = (
    b'{"type":"report","id":25,"scheduler_id":16,"params_scheduler":"{}",'
    b'"failed_at":"2025-12-12T12:03:39.002Z","failed_reason":"Connection timeout","retry_count":3}'
)


def monitor(house: House) -> FailedMonitor:
    found: FailedMonitor = house.container.monitor(broker=house.connection)
    return found


async def deliver(
    house: House, body: bytes, headers: Mapping[str, object] | None = None
) -> Delivery:
    """Give one message of the failed queue into our hands."""
    house.broker.publish([Envelope(Message(body=body, headers=headers or {}), ToFailed())])
    deliveries: list[Delivery] = []
    house.connection = house.broker.connect()  # of its own, as a monitor's is
    await house.connection.consume([FAILED_QUEUE], prefetch=1, on_delivery=deliveries.append)
    await house.settle()
    return deliveries[0]


async def watch(house: House, body: bytes, headers: Mapping[str, object] | None = None) -> None:
    """Let the monitor have one message of the failed queue."""
    delivery = await deliver(house, body, headers)
    await monitor(house).handle(delivery)


async def test_it_says_what_failed_for_good_as_the_original_does(lines: Lines) -> None:
    house = House()

    await watch(house, BODY)

    error, details, _ = lines()
    assert error == (
        "[ERROR] [type=report, id=25, scheduler_id=16, retry_count=3, "
        "failed_at=2025-12-12T12:03:39.002Z] ⚠️ PERMANENTLY FAILED TASK"
    )
    head, _, text = details.partition(": ")
    assert head == "[DEBUG] Failed task details"
    assert text == json.dumps(json.loads(BODY)), "one line, whatever is in it"


@pytest.mark.parametrize(
    "body",
    [b"\xff", BODY[:-1], b'{"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}"],
    ids=["binary", "cut off", "nested"],
)
async def test_it_parks_what_it_cannot_read(body: bytes) -> None:
    house = House()

    await watch(house, body)

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert parked.body == body
    assert "not a failed message" in str(parked.headers["cron-parked-because"])


async def test_what_it_has_no_row_of_it_archives_and_says_so(lines: Lines) -> None:
    house = House()

    await watch(house, BODY)

    [row] = house.records.archive()
    assert (row.scheduler_id, row.failed_reason) == (16, "Connection timeout")
    assert row.failed_at == datetime(2025, 12, 12, 12, 3, 39, 2_000, tzinfo=UTC)
    assert lines()[-1] == (
        f"[INFO] It failed at a worker that is not ours; the archive has it as {row.id}"
    )


async def test_what_somebody_holds_is_put_off_and_the_next_is_seen_to() -> None:
    house = House()

    def held() -> None:
        raise LedgerBusy("somebody keeps its row locked")

    house.outage.takes["keep_failure"] = held
    house.outage.begin("keep_failure", calls=len(SHORT_PAUSES) + 1)
    await watch(house, BODY)
    await house.connection.close()
    put_off = len(house.records.archive())
    await watch(house, BODY.replace(b'"id":25', b'"id":26'))
    await house.connection.close()
    beside = len(house.records.archive())
    await open_room(house)
    house.clock.advance(DEFERRED_FOR)
    await house.settle()

    assert (put_off, beside) == (0, 1)
    [returned] = house.messages(FAILED_QUEUE)
    assert returned.body == BODY
    assert house.broker.depth(QUARANTINE_QUEUE) == 0


async def test_at_the_shutdown_it_gives_back_what_the_ledger_has_not_heard_of() -> None:
    house = House()
    house.outage.begin("keep_failure")
    delivery = await deliver(house, BODY)
    watching = monitor(house)

    watching.drain()
    await watching.handle(delivery)
    await house.connection.close()

    assert house.broker.depth(FAILED_QUEUE) == 1


KEY = Signer(("a" * 32,))


def told_of(house: House) -> bytes:
    """What a worker of another program says when it fails our only message."""
    execution = msgspec.structs.replace(house.only, deaths=3)
    return failed_body(execution, reason="Connection timeout", at=house.now)


async def test_a_claim_about_what_the_ledger_waits_for_changes_nothing(lines: Lines) -> None:
    house = House()
    due(house)
    before = house.only
    headers = {"cron-execution-id": before.id, "cron-attempt": 1}

    await watch(house, told_of(house), headers)
    await house.connection.close()

    assert house.only == before
    assert list(house.records.archive()) == []
    assert house.broker.depth(FAILED_QUEUE) == 0
    [told] = [line for line in lines() if "the ledger has it as published, and nothing is" in line]
    assert "CRON_MESSAGE_KEY" in told
    assert not [line for line in lines() if "PERMANENTLY" in line]


@pytest.mark.parametrize(
    ("settings", "headers", "reason"),
    [
        ({"signer": KEY}, {"cron-execution-id": 1}, "it is not signed (CRON_MESSAGE_KEY)"),
        ({}, {"cron-execution-id": 4_711}, "knows no such execution"),
        ({"accepts_foreign": False}, {}, "CRON_FOREIGN_MESSAGES"),
    ],
)
async def test_what_is_not_believed_is_parked_and_no_alarm(
    settings: dict[str, Any], headers: dict[str, object], reason: str, lines: Lines
) -> None:
    house = House(**settings)
    due(house)

    await watch(house, told_of(house), {**headers, "cron-attempt": 1} if headers else {})

    [parked] = house.messages(QUARANTINE_QUEUE)
    assert reason in str(parked.headers["cron-parked-because"])
    assert (list(house.records.archive()), house.only.state) == ([], State.PUBLISHED)
    assert not [line for line in lines() if "PERMANENTLY" in line]
