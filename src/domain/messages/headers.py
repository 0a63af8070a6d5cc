"""Which headers of a foreign message are kept on the messages that follow it.

Anybody may have made them. No run needs one that is left out; one that AMQP cannot carry, or that
makes a message too large, would hold up that message.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

#: The most headers that are kept, and their bytes in all.
MOST_HEADERS: Final = 32
LARGEST_HEADERS: Final = 8 * 1024

#: Bytes of a header's name, and how deep its value may be nested (RabbitMQ's `x-death` is 3 deep).
LONGEST_NAME: Final = 128
DEEPEST_KEPT: Final = 4

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def kept_headers(headers: Mapping[str, object]) -> dict[str, object]:
    """Keep headers in their order, as long as there is room for them.

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
    """Cut a text to at most *size* bytes of UTF-8.

    >>> cut("Köln", 2), cut("Köln", 3), cut("Köln", 9)
    ('K', 'Kö', 'Köln')
    """
    return text.encode(errors="replace")[:size].decode(errors="ignore")


def _size(name: str, value: object, depth: int) -> int | None:
    """Estimate the bytes of a header; None if it cannot be kept at all."""
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
