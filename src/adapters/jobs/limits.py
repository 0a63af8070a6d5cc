"""What a TOML file can hold and nobody downstream could: too deep, or too large for 64 bits.

The reader of the standard library takes both; what JSON, a column or a call can bear is less.
"""

from collections.abc import Iterable, Iterator

from cronhare.domain.schedules.jobs_file import DEEPEST, LARGEST_INTEGER, SMALLEST_INTEGER

NO_INTEGER = "is no whole number of TOML, which are from -2^63 to 2^63-1"

#: Where a value is: the names of its tables and its numbers in lists, as they are written.
Path = tuple[str, ...]


def beyond_toml(content: dict[str, object]) -> Iterator[tuple[Path, str]]:
    """Name every value that nobody downstream could bear, without descending too deep itself."""
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
