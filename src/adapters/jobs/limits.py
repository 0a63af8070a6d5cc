"""Limits of values: nesting, and integers of 64 bits.

The standard library's reader takes more than JSON, a column or the call stack can hold.
"""

from collections.abc import Iterable, Iterator

from cronhare.domain.schedules.jobs_file import DEEPEST, LARGEST_INTEGER, SMALLEST_INTEGER

NO_INTEGER = "is no whole number of 64 bits, which are from -2^63 to 2^63-1"

#: Where a value is: the names of its tables and its numbers in lists, as in `tasks.a.env[0]`.
Path = tuple[str, ...]


def beyond_toml(content: dict[str, object]) -> Iterator[tuple[Path, str]]:
    """Yield the path of every value beyond the limits, and what is wrong. It does not recurse."""
    waiting: list[tuple[Path, object]] = [((), content)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, int) and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
            yield path, NO_INTEGER
        if len(path) > DEEPEST:
            yield path, f"lies in more than {DEEPEST} tables and lists, one in another"
            continue
        waiting += reversed([((*path, name), each) for name, each in _inside(value)])


def _inside(value: object) -> Iterable[tuple[str, object]]:
    match value:
        case dict():
            return ((f".{name}", each) for name, each in value.items())
        case list():
            return ((f"[{index}]", each) for index, each in enumerate(value))
    return ()
