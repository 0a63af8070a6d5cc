"""Which headers of a message go on with what becomes of it: few, small, and such as AMQP carries.

The headers of a message may be of anybody's making. One that is left out is not needed to run
anything; one that cannot be written, or makes a message too large, would hold up what it is on.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

#: So many headers are kept at the most, and so many bytes of them in all.
MOST_HEADERS: Final = 32
LARGEST_HEADERS: Final = 8 * 1024

#: Bytes of a header's name, and how deep its value may be nested (RabbitMQ's `x-death` is 3 deep).
LONGEST_NAME: Final = 128
DEEPEST_KEPT: Final = 4

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def kept_headers(headers: Mapping[str, object]) -> dict[str, object]:
    """Give the headers that go on, in their order, as long as there is room for them.

    >>> kept_headers({"trace": "abc", "n": 2**63, "raw": b"x", "long": "x" * 9_000, "yes": True})
    {'trace': 'abc', 'yes': True}
    """
    kept: dict[str, object] = {}
    room = LARGEST_HEADERS
    for name, value in headers.items():
        size = _size(name, value, DEEPEST_KEPT)
        if size is not None and size <= room and len(kept) < MOST_HEADERS:
            kept[name] = value
            room -= size
    return kept


def cut(text: str, size: int) -> str:
    """Give the beginning of a text, *size* bytes of it at the most.

    >>> cut("Köln", 2), cut("Köln", 3), cut("Köln", 9)
    ('K', 'Kö', 'Köln')
    """
    return text.encode(errors="replace")[:size].decode(errors="ignore")


def _size(name: str, value: object, depth: int) -> int | None:
    """Say how many bytes a header takes, roughly; None if it is left out whatever the room."""
    within = len(name.encode(errors="replace"))
    inside = _value_size(value, depth) if within <= LONGEST_NAME else None
    return None if inside is None else within + inside


def _value_size(value: object, depth: int) -> int | None:
    match value:
        case str():
            return len(value.encode(errors="replace")) + 5
        case bool() | datetime() | None:
            return 9
        case int() if _SMALLEST <= value <= _LARGEST:
            return 9
        case list() if depth:
            return _sum(_value_size(item, depth - 1) for item in value)
        case dict() if depth:
            return _sum(_size(str(name), item, depth - 1) for name, item in value.items())
    return None


def _sum(sizes: Iterable[int | None]) -> int | None:
    total = 5
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
