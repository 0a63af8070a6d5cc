"""Quoting input of any kind in a sentence: short, and on one line."""

import math
from typing import Final

LONGEST_ECHO: Final = 64


def shown(text: str) -> str:
    r"""Escape input for any log: ASCII, one line, at most 64 characters.

    >>> shown("0-24")
    '0-24'
    >>> shown("5 \u0665")
    '5 \\u0665'
    >>> len(shown("9" * 200))
    64
    """
    safe = text[: LONGEST_ECHO + 1].encode("unicode_escape").decode("ascii")
    return safe if len(safe) <= LONGEST_ECHO else safe[: LONGEST_ECHO - 3] + "..."


def echo(value: object) -> str:
    """Quote a value for any log.

    >>> echo("tomorrow"), echo(-5), echo(b"12"), echo(10**400)
    ("'tomorrow'", '-5', '2 bytes', 'a number of 401 digits')
    >>> len(echo("x" * 10**6)) < 70, echo([[]])
    (True, 'a list')
    """
    match value:
        case str():
            return f"'{shown(value)}'"
        case bytes() | bytearray() | memoryview():
            return f"{len(value):,} bytes"
        case bool() | None | float():
            return repr(value)
        case int() if value.bit_length() > 64:  # noqa: PLR2004 - Python refuses to write long ones
            return f"a number of {math.floor(value.bit_length() * math.log10(2)) + 1} digits"
        case int():
            return str(value)
    return f"a {type(value).__name__}"
