"""How the text of a setting becomes its value; a refusal says what is allowed."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TypeVar

from cronhare.adapters.http.allowed_hosts import AllowedHosts
from cronhare.domain.addresses import checked_host
from cronhare.domain.messages import SHORTEST_KEY
from cronhare.domain.texts.printable import echo, shown
from cronhare.domain.texts.words import MOST_LISTED, first_faults
from cronhare.domain.topology import (
    DEFAULT_WEIGHT,
    MOST_QUEUES,
    WEIGHTS,
    checked_queue,
    fault_of_queue,
)

T = TypeVar("T")
N = TypeVar("N", int, float)

#: Reads a text. A ValueError says what is allowed, and never quotes the text.
Form = Callable[[str], T]

_SWITCH = {"on": True, "true": True, "yes": True, "1": True} | {
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}


def whole(least: int, most: int, *, of: str = "", off: bool = False) -> Form[int]:
    """Read a whole number, *of* some unit where it has one; the word off is 0 where there is *off*.

    >>> whole(0, 19)("3"), whole(0, 19, off=True)("off")
    (3, 0)
    """
    what = f"a whole number{of and f' of {of}'} from {least:,} to {most:,}"
    return _number(int, r"[0-9]{1,18}", least, most, what, off=off)


def decimal(least: float, most: float, *, of: str = "", off: bool = False) -> Form[float]:
    what = f"a number{of and f' of {of}'} from {least:,} to {most:,}"
    return _number(float, r"[0-9]{1,18}(\.[0-9]{1,18})?", least, most, what, off=off)


def _number(
    kind: Callable[[str], N], pattern: str, least: float, most: float, what: str, *, off: bool
) -> Form[N]:
    def read(text: str) -> N:
        digits = "0" if off and text.lower() == "off" else text
        if not re.fullmatch(pattern, digits) or not least <= kind(digits) <= most:
            raise ValueError(f"must be {what}{', or off' if off else ''}")
        return kind(digits)

    return read


def seconds(least: float, most: float | timedelta) -> Form[timedelta]:
    longest = most.total_seconds() if isinstance(most, timedelta) else most
    number = decimal(least, longest, of="seconds")
    return lambda text: timedelta(seconds=number(text))


def text(most: int) -> Form[str]:
    def read(given: str) -> str:
        if not 0 < len(given) <= most:
            raise ValueError(f"must have 1 to {most:,} characters")
        return given

    return read


def one_of(*words: str) -> Form[str]:

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return text

    return read


def switch(text: str) -> bool:
    if (said := _SWITCH.get(text.lower())) is None:
        raise ValueError("must be on or off")
    return said


def checked(judge: Callable[[str], object]) -> Form[str]:
    def read(text: str) -> str:
        judge(text)
        return text

    return read


def served_queues(text: str) -> Mapping[str, int]:
    weights, faults = dict[str, int](), list[str]()
    for each in dict.fromkeys(_between_commas(text)):
        name, colon, digits = each.rpartition(":")
        weight = int(digits) if re.fullmatch("[0-9]{1,3}", digits) else 0
        if not colon:
            name, weight = each, DEFAULT_WEIGHT
        if weight not in WEIGHTS:
            faults.append(
                f"{echo(each)}: behind its last colon a queue has its weight, a whole number from "
                f"{WEIGHTS[0]} to {WEIGHTS[-1]}"
            )
        elif fault := fault_of_queue(name):
            faults.append(fault)
        elif weights.setdefault(name, weight) != weight:
            faults.append(f"{shown(name)} has two weights, {weights[name]} and {weight}")
    if len(weights) > MOST_QUEUES:
        faults.append(_too_many(weights))
    if faults:
        raise ValueError("; ".join(first_faults(faults, MOST_LISTED, as_fault=str)))
    return weights


def queue_texts(weights: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        name if weight == DEFAULT_WEIGHT and ":" not in name else f"{name}:{weight}"
        for name, weight in weights.items()
    )


def checked_queues(queues: Iterable[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(queues))
    if len(names) > MOST_QUEUES:
        raise ValueError(_too_many(names))
    return tuple(map(checked_queue, names))


def _too_many(names: Collection[str]) -> str:
    return f"names {len(names):,} queues, more than {MOST_QUEUES}"


def some_queues(text: str) -> tuple[str, ...]:
    return checked_queues(_between_commas(text)) if text else ()


def _between_commas(text: str) -> Iterator[str]:
    return (each.strip() for each in text.split(","))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def hosts(text: str) -> tuple[str, ...]:
    AllowedHosts.parse(_words(text))
    return _words(text)


def host_names(text: str) -> tuple[str, ...]:
    """Read names of this host as others have them.

    >>> host_names("cron.example.org, CRON")
    ('cron.example.org', 'cron')
    """
    try:
        return tuple(map(checked_host, _words(text)))
    except ValueError as error:
        raise ValueError(f"one {error}, without a port, with commas between") from None


def keys(text: str) -> tuple[str, ...]:
    found = _words(text)
    if any(len(key) < SHORTEST_KEY for key in found):
        raise ValueError(
            f"each key must have {SHORTEST_KEY} characters or more, with commas between: "
            "`openssl rand -hex 32` makes one"
        )
    return found
