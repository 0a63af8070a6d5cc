"""How the text of a setting becomes its value; a refusal says what is allowed."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final, TypeVar

from cronhare.domain.addresses.servers import checked_host
from cronhare.domain.addresses.web import AllowedHosts
from cronhare.domain.messages import SHORTEST_KEY
from cronhare.domain.topology import ServedQueues, checked_queues

T = TypeVar("T")
N = TypeVar("N", int, float)

#: Reads a text. A ValueError says what is allowed, and never quotes the text.
Form = Callable[[str], T]

_WHOLE: Final = re.compile(r"\d{1,18}", re.ASCII)
_DECIMAL: Final = re.compile(r"\d{1,18}(\.\d{1,18})?", re.ASCII)
_SWITCH: Final = {"on": True, "true": True, "yes": True, "1": True} | {
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}


def whole(least: int, most: int, *, of: str = "") -> Form[int]:
    """Read a whole number, *of* some unit where it has one.

    >>> whole(0, 19)("3")
    3
    """

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number{_of(of)} from {least:,} to {most:,}")
        return int(text)

    return read


def or_off(number: Form[N]) -> Form[N]:
    """Read a number that may be 0, or the word off for that.

    >>> or_off(whole(0, 19))("off")
    0
    """

    def read(text: str) -> N:
        try:
            return number("0") if text.lower() == "off" else number(text)
        except ValueError as error:
            raise ValueError(f"{error}, or off") from None

    return read


def text(most: int) -> Form[str]:
    """Read a text of so many characters at most.

    >>> text(3)("abc")
    'abc'
    """

    def read(given: str) -> str:
        if not 0 < len(given) <= most:
            raise ValueError(f"must have 1 to {most:,} characters")
        return given

    return read


def decimal(least: float, most: float, *, of: str = "") -> Form[float]:
    """Read a number, with a point or without; neither `nan` nor `1e3`."""

    def read(text: str) -> float:
        if not _DECIMAL.fullmatch(text) or not least <= float(text) <= most:
            raise ValueError(f"must be a number{_of(of)} from {least:,} to {most:,}")
        return float(text)

    return read


def seconds(least: float, most: float) -> Form[timedelta]:
    """Read a time in seconds."""
    number = decimal(least, most, of="seconds")
    return lambda text: timedelta(seconds=number(text))


def _of(unit: str) -> str:
    return unit and f" of {unit}"


def one_of(*words: str) -> Form[str]:
    """Read one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return text

    return read


def switch(text: str) -> bool:
    """Read on or off."""
    if (said := _SWITCH.get(text.lower())) is None:
        raise ValueError("must be on or off")
    return said


def served_queues(text: str) -> ServedQueues:
    """Read task queues with their weights, with commas between."""
    return ServedQueues.parse(_between_commas(text))


def some_queues(text: str) -> tuple[str, ...]:
    """Read the names of task queues, with commas between; none, if there is no text."""
    return checked_queues(_between_commas(text)) if text else ()


def _between_commas(text: str) -> Iterator[str]:
    return (each.strip() for each in text.split(","))


def hosts(text: str) -> tuple[str, ...]:
    """Read names, addresses and networks of hosts, with commas or spaces between."""
    found = tuple(text.replace(",", " ").split())
    AllowedHosts.parse(found)
    return found


def host_names(text: str) -> tuple[str, ...]:
    """Read names of this host as others have them, with commas or spaces between.

    >>> host_names("cron.example.org, CRON")
    ('cron.example.org', 'cron')
    """
    try:
        return tuple(map(checked_host, text.replace(",", " ").split()))
    except ValueError as error:
        raise ValueError(f"{error}, without a port, with commas between") from None


def keys(text: str) -> tuple[str, ...]:
    """Read keys, with commas or spaces between."""
    found = tuple(text.replace(",", " ").split())
    if any(len(key) < SHORTEST_KEY for key in found):
        raise ValueError(
            f"each key must have {SHORTEST_KEY} characters or more, with commas between: "
            "`openssl rand -hex 32` makes one"
        )
    return found


def checked(judge: Callable[[str], object]) -> Form[str]:
    """Keep a text as it is; *judge* refuses it by a ValueError."""

    def read(text: str) -> str:
        judge(text)
        return text

    return read
