"""Limits of values: nesting, and integers of 64 bits.

The standard library's reader takes more than JSON, a column or the call stack can hold.
"""

from collections.abc import Iterator

from cronhare.domain.schedules.jobs_file import DEEPEST, LARGEST_INTEGER, SMALLEST_INTEGER
from cronhare.domain.texts.printable import shortened

NO_INTEGER = "is no whole number of 64 bits, which are from -2^63 to 2^63-1"

#: Characters of a name in a path. It is said again with every fault within: a long one, of a few
#: bytes' worth of values each, would make gigabytes of a file or a body.
LONGEST_STEP = 100

#: Where a value is: the names of its tables and its numbers in lists, as in `tasks.a.env[0]`.
Path = tuple[str, ...]

_Step = tuple[str | int, object]


def beyond_toml(content: dict[str, object]) -> Iterator[tuple[Path, str]]:
    """Yield the path of every value beyond the limits, and what is wrong.

    It does not recurse, and holds no more than the way to the value that it looks at: whoever has
    read enough faults need not read on.
    """
    path = list[str | int]()
    levels = [_inside(content)]
    while levels:
        step = next(levels[-1], None)
        if step is None:
            levels.pop()
            del path[-1:]
            continue
        name, value = step
        if isinstance(value, int) and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
            yield _said(path, name), NO_INTEGER
        if len(path) >= DEEPEST:
            yield (
                _said(path, name),
                f"lies in more than {DEEPEST} tables and lists, one in another",
            )
        elif isinstance(value, dict | list):
            path.append(name)
            levels.append(_inside(value))


def _inside(value: dict[str, object] | list[object]) -> Iterator[_Step]:
    return iter(value.items() if isinstance(value, dict) else enumerate(value))


def _said(path: list[str | int], name: str | int) -> Path:
    return tuple(_step(each) for each in (*path, name))


def _step(name: str | int) -> str:
    return f"[{name}]" if isinstance(name, int) else f".{shortened(name, LONGEST_STEP)}"
