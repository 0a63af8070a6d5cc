"""Lists and counts within a sentence: the first few, and how many more there are."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

F = TypeVar("F")

#: The most names in a list that was not asked for.
MOST_LISTED: Final = 10


def counted(number: int, noun: str) -> str:
    """Count things.

    >>> counted(1, "queue"), counted(1200, "message")
    ('1 queue', '1,200 messages')
    """
    return f"{number:,} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """Give the singular or plural of a regular noun."""
    return noun if number == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"


def listed(names: Sequence[str], *, most: int = MOST_LISTED, total: int | None = None) -> str:
    """List names, and count those beyond the first few; *total* says how many there are in all.

    >>> listed(["a", "b"]), listed(list("abcdefgh"), most=5), listed(["a", "b"], total=1200)
    ('a, b', 'a, b, c, d, e and 3 others', 'a, b and 1,198 others')
    """
    shown = names[:most]
    first, rest = ", ".join(shown), (len(names) if total is None else total) - len(shown)
    return f"{first} and {counted(rest, 'other')}" if rest > 0 else first


def first_faults(faults: Sequence[F], most: int, *, as_fault: Callable[[str], F]) -> tuple[F, ...]:
    """Give the first of many faults, and one more that says there are others.

    >>> first_faults(["a is missing", "b is missing"], 1, as_fault=str)
    ('a is missing', 'these are the first 1 faults; there are more')
    """
    if len(faults) <= most:
        return tuple(faults)
    return (*faults[:most], as_fault(f"these are the first {most} faults; there are more"))
