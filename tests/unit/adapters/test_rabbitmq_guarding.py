"""What publishers may write, read in our own hands."""

import asyncio
import struct
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.rabbitmq.consumer.guarding import GuardedReader
from cronhare.adapters.rabbitmq.wire.properties import (
    DEEPEST,
    UnreadableProperties,
    read_properties,
)
from cronhare.ports.broker import LARGEST_TAKEN
from tests.services.frames import long, properties, short, table


def nested(depth: int) -> bytes:
    value = b"V"
    for _ in range(depth):
        value = b"A" + long(value)
    return value


@pytest.mark.parametrize(
    ("value", "understood"),
    [
        (b"t\x01", True),
        (b"b\xff", -1),
        (b"B\xff", 255),
        (b"s\xff\xff", -1),
        (b"u\xff\xff", 65_535),
        (b"I\xff\xff\xff\xff", -1),
        (b"i\xff\xff\xff\xff", 2**32 - 1),
        (b"l\x80" + bytes(7), -(2**63)),
        (b"L\x7f" + b"\xff" * 7, 2**63 - 1),
        (b"f\x3f\x80\x00\x00", 1.0),
        (b"d" + struct.pack(">d", 1e300), 1e300),
        (b"D\x02\x00\x00\x00\x7b", Decimal("1.23")),
        (b"D\xff\xff\xff\xff\xff", Decimal(2**32 - 1).scaleb(-255)),
        (b"S" + long("Köln".encode()), "Köln"),
        (b"S" + long(b"\xff"), b"\xff"),
        (b"x" + long(b"\xff"), b"\xff"),
        (b"T" + struct.pack(">Q", 1_700_000_000), datetime.fromtimestamp(1_700_000_000, tz=UTC)),
        (b"T" + struct.pack(">Q", 1_700_000_000 * 10**9), 1_700_000_000 * 10**9),
        (b"V", None),
        (b"\x00", None),
        (b"A" + long(b"t\x01V"), [True, None]),
        (b"F" + table(a=b"V"), {"a": None}),
    ],
)
def test_a_value_of_every_type_is_read(value: bytes, understood: object) -> None:
    found = read_properties(properties(headers=table(it=value), message_id=short(b"17")))

    assert (found.headers, found.id) == ({"it": understood}, "17")
    assert type(found.headers["it"]) is type(understood)


def test_an_id_that_is_no_text_can_be_written_to_a_copy_and_stays_its_own() -> None:
    raw = [bytes([number]) * length for number in (0xFE, 0xFF) for length in (63, 64, 255)]

    ids = [read_properties(properties(message_id=short(each))).id for each in raw]

    assert len({*ids}) == len(raw)
    assert all(each is not None and len(each.encode()) <= 255 for each in ids)
    assert ids[0] == r"\xfe" * 63


def test_properties_that_mean_nothing_to_us_are_passed_over() -> None:
    every = properties(
        content_type=short(b"\xff"), content_encoding=short(b""), headers=table(x=b"V"),
        delivery_mode=b"\x63", priority=b"\xff", correlation_id=short(b"\xff" * 255),
        reply_to=short(b"\xfe"), expiration=short(b"never"), message_id=short(b"a\xffb"),
        timestamp=b"\xff" * 8, type=short(b"\xff"), user_id=short(b""), app_id=short(b"\x80"),
        cluster_id=short(b"\xc0"),
    )  # fmt: skip

    found = read_properties(every)

    assert (found.headers, found.id) == ({"x": None}, "a\\xffb")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "end in the middle"),
        (b"\x80", "end in the middle"),
        (b"\x80\x00", "end in the middle"),
        (b"\x80\x00\x05ab", "end in the middle"),
        (b"\x00\x40" + bytes(7), "end in the middle"),
        (properties(headers=table(x=b"")), "end in the middle"),
        (properties(headers=table(x=b"S" + struct.pack(">I", 2**32 - 1))), "end in the middle"),
        (properties(headers=struct.pack(">I", 2**32 - 1)), "end in the middle"),
        (properties(headers=table(x=b"Z")), "unknown type 0x5a"),
        (b"\x00\x01\x00\x00", "no properties for the flags 0x0001"),
        (properties(headers=table(deep=nested(DEEPEST + 1))), f"over {DEEPEST} deep"),
        (properties(headers=table(deep=nested(10_000))), f"over {DEEPEST} deep"),
    ],
)
def test_what_no_reading_gets_past_has_a_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(UnreadableProperties, match=reason):
        read_properties(raw)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda raw: properties(headers=raw)))
def test_whatever_the_bytes_it_is_read_or_refused(raw: bytes) -> None:
    with suppress(UnreadableProperties):
        read_properties(raw)


async def guarded(*frames: bytes) -> list[tuple[int, int, bytes]]:
    """Read frames through the guard as the client does."""
    stream = asyncio.StreamReader()
    stream.feed_data(b"".join(frames))
    stream.feed_eof()
    reader = GuardedReader(stream)
    found = []
    while not reader.at_eof():
        head = await reader.readexactly(1) + await reader.readexactly(6)
        kind, channel, size = struct.unpack(">BHI", head)
        payload = await reader.readexactly(size + 1)
        assert payload.endswith(b"\xce")
        found.append((kind, channel, payload[:-1]))
    return found


def frame(kind: int, payload: bytes, *, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


async def test_a_delivery_loses_the_names_that_a_publisher_chose() -> None:
    begin = b"\x00\x3c\x00\x3c" + short(b"ctag1") + struct.pack(">QB", 7, 1)

    [(_, _, payload)] = await guarded(frame(1, begin + short(b"\xff") + short(b"\xfe" * 255)))

    assert payload == begin + short(b"") + short(b"")


async def test_heartbeats_and_other_methods_go_through_as_they_are() -> None:
    answer = b"\x00\x0a\x00\x33"

    assert await guarded(frame(8, b"", channel=0), frame(1, answer, channel=0)) == [
        (8, 0, b""),
        (1, 0, answer),
    ]


async def test_a_body_goes_on_as_far_as_the_largest_that_is_read() -> None:
    size = LARGEST_TAKEN + 300_000
    header = struct.pack(">HHQ", 60, 0, size) + properties()
    pieces = [bytes(100_000)] * (size // 100_000) + [bytes(size % 100_000)]
    after = struct.pack(">HHQ", 60, 0, 3) + properties()

    found = await guarded(
        frame(2, header), *(frame(3, piece) for piece in pieces), frame(2, after), frame(3, b"abc")
    )

    (_, _, told), *bodies, _, (_, _, last) = found
    assert struct.unpack(">HHQ", told[:12])[2] == LARGEST_TAKEN
    assert sum(len(body) for _, _, body in bodies) == LARGEST_TAKEN
    assert last == b"abc"


async def test_a_broker_that_hangs_up_is_told_as_the_stream_tells_it() -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        await guarded(frame(2, struct.pack(">HHQ", 60, 0, 3) + properties())[:-4])


async def test_a_body_that_looks_like_such_a_proposal_stays_as_it_is() -> None:
    body = b"\x00\x0a\x00\x1e" + b"\xff" * 8
    header = struct.pack(">HHQ", 60, 0, len(body)) + properties()

    found = await guarded(frame(2, header), frame(3, body))

    assert found[1] == (3, 1, body)
