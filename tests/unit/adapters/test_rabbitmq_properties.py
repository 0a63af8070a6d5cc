"""What publishers may write, read in our own hands."""

import struct
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.rabbitmq.wire import DEEPEST, UnreadableProperties, read_properties
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
