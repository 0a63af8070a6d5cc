"""What a publisher may write: properties and bodies that no client of good manners would send."""

import struct
from typing import Final

from cronhare.domain.topology import FAILED_QUEUE
from tests.services.frames import FLAGS, long, properties, short, table

#: What becomes of a good body, whatever its properties are.
RUNS: Final = "runs"
BAD_UTF8: Final = b"\xff\xfe\x80"


def nested(depth: int, kind: bytes) -> bytes:
    """Write arrays or tables within each other."""
    value = b"V"
    for _ in range(depth):
        value = kind + (long(value) if kind == b"A" else table(x=value))
    return value


def header(value: bytes) -> bytes:
    """Write properties with one header of this value."""
    return properties(headers=table(odd=value))


def named(name: str, value: bytes) -> bytes:
    """Write properties with one header of this name."""
    return properties(headers=table(**{name: value}))


def number(kind: bytes, form: str, value: float) -> bytes:
    """Write a number with its type."""
    return kind + struct.pack(f">{form}", value)


def seconds(value: int) -> bytes:
    """Write a time."""
    return struct.pack(">Q", value)


#: Properties with a good body: what becomes of it, or why it is parked.
PROPERTIES: Final[dict[str, tuple[bytes, str]]] = {
    "no properties": (properties(), RUNS),
    # Times that are none.
    "timestamp in microseconds": (properties(timestamp=seconds(1_700_000_000_000_000)), RUNS),
    "timestamp of all bits": (properties(timestamp=b"\xff" * 8), RUNS),
    "timestamp of 2^63": (properties(timestamp=seconds(2**63)), RUNS),
    # Text that is none.
    **{
        f"{name} that is no UTF-8": (properties(**{name: short(BAD_UTF8)}), RUNS)
        for name in FLAGS
        if name not in {"headers", "delivery_mode", "priority", "timestamp", "expiration"}
    },
    **{
        f"{name} of 255 bytes": (properties(**{name: short(b"x" * 255)}), RUNS)
        for name in ("content_type", "correlation_id", "reply_to", "message_id", "type", "app_id")
    },
    **{
        f"{name} of 255 bytes that are no UTF-8": (properties(**{name: short(b"\xff" * 255)}), RUNS)
        for name in ("content_type", "correlation_id", "type", "app_id")
    },
    "empty message_id": (properties(message_id=short(b"")), RUNS),
    "message_id with NUL and escapes": (properties(message_id=short(b"\0\x1b[31m\r\n")), RUNS),
    "surrogates in message_id": (properties(message_id=short(b"\xed\xa0\x80")), RUNS),
    "delivery mode 255": (properties(delivery_mode=b"\xff"), RUNS),
    "expiration that is no number": (properties(expiration=short(b"never")), RUNS),
    "user_id of somebody else": (properties(user_id=short(b"root")), RUNS),
    # Names of headers.
    "header name that is no UTF-8": (properties(headers=long(short(BAD_UTF8) + b"V")), RUNS),
    "header name of 255 bytes that are no UTF-8": (
        properties(headers=long(short(b"\xff" * 255) + b"V")),
        RUNS,
    ),
    "the same header 1,000 times": (properties(headers=long((short(b"x") + b"V") * 1_000)), RUNS),
    # Every type, at its edges.
    "no headers at all": (properties(headers=long(b"")), RUNS),
    "a boolean of 255": (header(b"t\xff"), RUNS),
    "2^63 of type L": (header(number(b"L", "Q", 2**63)), RUNS),
    "a double that is not a number": (header(number(b"d", "d", float("nan"))), RUNS),
    "an infinite double": (header(number(b"d", "d", float("inf"))), RUNS),
    "a decimal of 255 places": (header(b"D\xff" + b"\xff" * 4), RUNS),
    "text that is no UTF-8": (header(b"S" + long(BAD_UTF8)), RUNS),
    "text with NUL": (header(b"S" + long(b"a\0b")), RUNS),
    "text of 100 kB": (header(b"S" + long(b"x" * 100_000)), RUNS),
    "bytes": (header(b"x" + long(BAD_UTF8)), RUNS),
    "a time of all bits": (header(b"T" + b"\xff" * 8), RUNS),
    "a void": (header(b"V"), RUNS),
    "an empty table": (header(b"F" + table()), RUNS),
    "an array of all kinds": (
        header(b"A" + long(b"t\x01" b"V" b"b\x01" + b"S" + long(BAD_UTF8) + b"x" + long(b"\0"))),
        RUNS,
    ),
    "an array of 10,000": (header(b"A" + long(b"V" * 10_000)), RUNS),
    "a table with names that are no UTF-8": (header(b"F" + long(short(BAD_UTF8) + b"V")), RUNS),
    "arrays 600 deep": (header(nested(600, b"A")), "nested over 32 deep"),
    "tables 600 deep": (header(nested(600, b"F")), "nested over 32 deep"),
    "17,000 headers": (
        properties(headers=long(b"".join(short(b"%d" % n) + b"t\x01" for n in range(17_000)))),
        RUNS,
    ),
    # What is cut off, or no property at all: mostly the broker's to refuse.
    "an unknown type": (header(b"Z"), "unknown type"),
    "a table that ends early": (properties(headers=struct.pack(">I", 99)), "in the middle"),
    "a table of 4 GiB": (properties(headers=struct.pack(">I", 2**32 - 1)), "in the middle"),
    "a header without a value": (properties(headers=long(short(b"x"))), "in the middle"),
    "a short string that ends early": (properties(message_id=b"\xffabc"), "in the middle"),
    "a timestamp that ends early": (properties(timestamp=bytes(3)), "in the middle"),
    "flags without properties": (b"\xff\xfc", "in the middle"),
    "no flags": (b"", "in the middle"),
    "flags that go on for ever": (b"\x00\x01" * 1_000, "no properties for the flags"),
    "a flag that means nothing": (b"\x00\x02", RUNS),  # a quorum queue writes the flags anew
    "bytes behind the properties": (properties() + b"\xff" * 50, RUNS),
    # Headers that mean something to us, or to the broker.
    "a ticket of text": (named("cron-execution-id", b"S" + long(b"1")), RUNS),
    "a ticket of bytes": (named("cron-attempt", b"x" + long(b"1")), RUNS),
    "a ticket of true": (
        properties(headers=table(**{"cron-execution-id": b"t\1", "cron-attempt": b"V"})),
        RUNS,
    ),
    "a ticket of an unknown execution": (
        properties(
            headers=table(
                **{
                    "cron-execution-id": number(b"l", "q", 2**62),
                    "cron-attempt": number(b"l", "q", 1),
                }
            )
        ),
        "",
    ),
    "-2^63 deaths": (named("cron-deaths", number(b"l", "q", -(2**63))), RUNS),
    "deaths of an array": (named("cron-deaths", b"A" + long(b"V")), RUNS),
    "x-death of text": (named("x-death", b"S" + long(b"x")), RUNS),
    "x-death of bad tables": (
        properties(
            headers=table(
                **{"x-death": b"A" + long(b"F" + table(count=b"S" + long(b"9"), reason=b"V"))}
            )
        ),
        RUNS,
    ),
    "x-delivery-count of text": (
        properties(headers=table(**{"x-delivery-count": b"S" + long(b"9")})),
        RUNS,
    ),
    "CC that is no array": (properties(headers=table(CC=b"S" + long(b"x"))), RUNS),
    "CC to a queue that is no UTF-8": (
        properties(headers=table(CC=b"A" + long(b"S" + long(BAD_UTF8)))),
        RUNS,
    ),
    "BCC to the failed queue": (
        properties(headers=table(BCC=b"A" + long(b"S" + long(FAILED_QUEUE.encode())))),
        RUNS,
    ),
}  # fmt: skip

#: Bodies that are none: why each is parked.
BODIES: Final[dict[str, tuple[bytes, str]]] = {
    "nothing": (b"", "not a task message"),
    "null": (b"null", "not a task message"),
    "a list": (b"[]", "not a task message"),
    "no UTF-8": (BAD_UTF8, "not a task message"),
    "UTF-16": ('{"type": "report"}'.encode("utf-16"), "not a task message"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "not a task message"),
    "10,000 brackets": (b"[" * 10_000, "not "),
    "an id of 5,000 digits": (
        b'{"type":"worker","id":%s,"scheduler_id":1,"params_scheduler":"{}"}' % (b"9" * 5_000),
        "not a task message",
    ),
    "an id of 2^63": (
        b'{"type":"worker","id":9223372036854775808,"scheduler_id":1,"params_scheduler":"{}"}',
        "not a task message",
    ),
    "an id that is a fraction": (
        b'{"type":"worker","id":1.5,"scheduler_id":1,"params_scheduler":"{}"}',
        "not a task message",
    ),
    "params that are no text": (
        b'{"type":"worker","id":1,"scheduler_id":1,"params_scheduler":{}}',
        "not a task message",
    ),
    "an unknown schedule": (
        b'{"type":"worker","id":1,"scheduler_id":999999999,"params_scheduler":"{}"}',
        "999999999",
    ),
    "1 MiB and one byte": (b" " * (2**20 + 1), "are allowed"),
    "20 MiB": (bytes(20 * 2**20), "are allowed"),
    "log lines and colours": (b"\x1b[2J\r\n[ERROR] forged\n", "not a task message"),
}
