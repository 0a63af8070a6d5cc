"""What needs no broker to be tried: frames, properties and headers on the wire, and joined acks."""

import asyncio
import random
import struct
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.rabbitmq.deliveries import Acks, Deliveries, Incoming
from cronhare.adapters.rabbitmq.wire import DEEPEST, UnreadableProperties, read_properties
from cronhare.ports.broker import LARGEST_TAKEN, Message
from tests.services.frames import long, properties, short, table

DELIVER, CLOSE = b"\x00\x3c\x00\x3c", b"\x00\x14\x00\x28"


@attrs.frozen
class Seen:
    """What came out of the frames."""

    incoming: list[tuple[int, Incoming]] = attrs.field(factory=list)
    closed: list[int] = attrs.field(factory=list)

    def deliveries(self) -> Deliveries:
        return Deliveries(lambda *one: self.incoming.append(one), self.closed.append)

    @property
    def bodies(self) -> list[bytes]:
        return [each.message()[0].body for _, each in self.incoming]


def frame(kind: int, payload: bytes, *, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def deliver(tag: int, *, redelivered: bool = False, channel: int = 1) -> bytes:
    names = short(b"\xff") + short(b"\xfe" * 255)  # a publisher's, which may be any bytes
    numbers = struct.pack(">Q?", tag, redelivered)
    return frame(1, DELIVER + short(b"ctag1.x") + numbers + names, channel=channel)


def content(*parts: bytes, raw: bytes = properties(), channel: int = 1) -> bytes:
    header = struct.pack(">HHQ", 60, 0, sum(map(len, parts))) + raw
    bodies = (frame(3, part, channel=channel) for part in parts)
    return frame(2, header, channel=channel) + b"".join(bodies)


def test_a_delivery_is_handed_out_whole_and_the_client_sees_nothing_of_it() -> None:
    raw = properties(headers=table(x=b"S" + long(b"y")), message_id=short(b"17"))
    seen = Seen()

    rest = seen.deliveries().split(deliver(7, redelivered=True) + content(b"ab", b"c", raw=raw))

    assert rest == b""
    [(channel, incoming)] = seen.incoming
    assert (channel, incoming.tag, incoming.redelivered) == (1, 7, True)
    assert incoming.message() == (Message(body=b"abc", headers={"x": "y"}, id="17"), None)


def test_however_the_bytes_arrive_the_same_comes_out() -> None:
    answer, heartbeat = frame(1, b"\x00\x3c\x00\x15"), frame(8, b"", channel=0)
    data = (
        answer + deliver(1) + content(b"one") + heartbeat
        + deliver(2) + deliver(9, channel=2) + content(b"two") + content(b"nine", channel=2)
        + deliver(3) + content()
    )  # fmt: skip
    chance = random.Random(7)
    for _ in range(50):
        seen = Seen()
        deliveries = seen.deliveries()
        cuts = sorted(chance.sample(range(len(data)), k=chance.randrange(40)))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]

        rest = b"".join(map(deliveries.split, pieces))

        assert rest == answer + heartbeat
        assert [(channel, each.tag) for channel, each in seen.incoming] == [
            (1, 1),
            (1, 2),
            (2, 9),
            (1, 3),
        ]
        assert seen.bodies == [b"one", b"two", b"nine", b""]


def test_of_a_body_as_much_is_kept_as_is_read_and_its_size_is_told() -> None:
    parts = [bytes(100_000)] * (LARGEST_TAKEN // 100_000 + 4)
    seen = Seen()

    seen.deliveries().split(deliver(1) + content(*parts) + deliver(2) + content(b"next"))

    message, defect = seen.incoming[0][1].message()
    assert len(message.body) == LARGEST_TAKEN
    assert defect is not None
    assert defect.size == sum(map(len, parts))
    assert seen.bodies[1] == b"next"


def test_properties_that_cannot_be_read_are_a_defect_of_that_message_alone() -> None:
    seen = Seen()

    seen.deliveries().split(deliver(1) + content(b"x", raw=b"\x80") + deliver(2) + content(b"y"))

    assert [each.message()[1] is not None for _, each in seen.incoming] == [True, False]


def test_a_channel_that_is_closed_amid_a_delivery_hands_out_nothing_of_it() -> None:
    seen, closed = Seen(), frame(1, CLOSE + bytes(7))
    deliveries = seen.deliveries()

    rest = deliveries.split(deliver(1) + content(b"abc")[:20]) + deliveries.split(b"")
    assert (rest, seen.closed) == (b"", [])
    rest = seen.deliveries().split(deliver(1) + closed)

    assert rest == closed
    assert (seen.incoming, seen.closed) == ([], [1])


def test_a_delivery_that_ends_too_early_ends_the_connection() -> None:
    with pytest.raises(ConnectionResetError, match="ends too early"):
        Seen().deliveries().split(frame(1, DELIVER + b"\x05"))


async def acks_of(*turns: str, arrived: int) -> list[tuple[int, bool]]:
    """Settle deliveries, turn by turn: `3` is acked, `-3` is given back."""
    written: list[tuple[int, bool]] = []
    acks = Acks(lambda tag, multiple: written.append((tag, multiple)))
    for tag in range(1, arrived + 1):
        acks.arrived(tag)
    for turn in turns:
        for tag in map(int, turn.split()):
            if tag > 0:
                acks.ack(tag)
            else:
                acks.given_back(-tag)
        await asyncio.sleep(0)
    return written


@pytest.mark.parametrize(
    ("turns", "written"),
    [
        (["1 2 3"], [(3, True)]),
        (["1", "2"], [(1, True), (2, True)]),
        (["2 3", "1"], [(2, False), (3, False), (1, True)]),
        (["1 2 4 5", "3"], [(2, True), (4, False), (5, False), (3, True)]),
        (["-1 2 3"], [(3, True)]),
        (["-2 3", "1"], [(3, False), (1, True)]),
    ],
)
async def test_acks_without_a_gap_are_one_and_those_above_it_do_not_wait(
    turns: list[str], written: list[tuple[int, bool]]
) -> None:
    assert await acks_of(*turns, arrived=6) == written


def nested(depth: int) -> bytes:
    value = b"V"
    for _ in range(depth):
        value = b"A" + long(value)
    return value


@pytest.mark.parametrize(
    ("value", "understood"),
    [
        (b"t\x01", True),
        (b"B\xff", 255),
        (b"u\xff\xff", 65_535),
        (b"i\xff\xff\xff\xff", 2**32 - 1),
        (b"l\x80" + bytes(7), -(2**63)),
        (b"f\x3f\x80\x00\x00", 1.0),
        (b"D\x02\x00\x00\x00\x7b", Decimal("1.23")),
        (b"D\xff\xff\xff\xff\xff", Decimal(2**32 - 1).scaleb(-255)),
        (b"S" + long("Köln".encode()), "Köln"),
        (b"S" + long(b"\xff"), b"\xff"),
        (b"T" + struct.pack(">Q", 1_700_000_000), datetime.fromtimestamp(1_700_000_000, tz=UTC)),
        (b"T" + struct.pack(">Q", 1_700_000_000 * 10**9), 1_700_000_000 * 10**9),
        (b"V", None),
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
        (properties(headers=table(x=b"S" + struct.pack(">I", 2**32 - 1))), "end in the middle"),
        (properties(headers=table(x=b"Z")), "unknown type 0x5a"),
        (b"\x00\x01\x00\x00", "no properties for the flags 0x0001"),
        (properties(headers=table(deep=nested(DEEPEST + 1))), f"over {DEEPEST} deep"),
    ],
)
def test_what_no_reading_gets_past_has_a_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(UnreadableProperties, match=reason):
        read_properties(raw)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda raw: properties(headers=raw)))
def test_whatever_the_bytes_it_is_read_or_refused(raw: bytes) -> None:
    with suppress(UnreadableProperties):
        read_properties(raw)
