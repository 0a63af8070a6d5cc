"""Names, counts and lists within a sentence, and hints at what was meant."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from .printable import LONGEST_ECHO

LONGEST_NAME: Final = 63

#: A name of a task, a schedule, a source, a class of retention, a calendar.
NAME: Final = rf"[a-z0-9][a-z0-9._-]{{0,{LONGEST_NAME - 1}}}"


def called(ref: object, *, name: str | None = None, topic: str | None = None) -> str:
    """Call a task by the *topic* it hears of, else by its *name* in a jobs file, else by number.

    Who listens to a topic may be another task tomorrow.

    >>> called("report 25"), called("worker 1", name="backup"), called("event 7", topic="paid")
    ('report 25', 'backup', 'paid')
    """
    return topic or name or str(ref)


def called_in_full(ref: object, *, name: str | None, source: str | None) -> str:
    """Call a task by all that is known of it, beside its topic where it hears of one.

    >>> called_in_full("worker 1", name="backup", source="jobs.toml")
    'backup of jobs.toml (worker 1)'
    """
    of_source = f" of {source}" if source else ""
    return f"{name}{of_source} ({ref})" if name else f"{ref}{of_source}"


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
    if len(faults) <= most:
        return tuple(faults)
    return (*faults[:most], as_fault(f"these are the first {most} faults; there are more"))


#: How many names are compared with a misspelt one, which is slow; and how many are listed.
MOST_COMPARED: Final = 1_000
_MOST_HINTED: Final = 20


def hint(name: str, known: Sequence[str]) -> str:
    """Suggest the known name that may have been meant, or list those that there are.

    >>> hint("de-holiday", ["de-holidays"]), hint("x", ["de-holidays"]), hint("x", [])
    ('did you mean de-holidays?', 'there are de-holidays', 'there are none')
    """
    return meant(name, known) or f"there are {listed(sorted(known), most=_MOST_HINTED) or 'none'}"


def meant(name: str, known: Sequence[str]) -> str | None:
    """Suggest the known name that may have been meant, where all of them are listed already."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to load, and seldom asked for

    close = get_close_matches(name[:LONGEST_ECHO], known[:MOST_COMPARED], n=1)
    return f"did you mean {close[0]}?" if close else None


def ended(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


def say_no_times(*, source: str | None, stay_alive: bool | None) -> str:
    """Say it in a few words; *source* is its jobs file, if it is of one.

    Whether a jobs file has it begin at a start or a boot too, no row says.
    """
    if stay_alive:
        return "always"
    return "by hand" if source is None else "no times of its own"


def say_ways(source: str) -> str:
    return f"begun by hand; or at a boot or start, as {source} says"
