"""Text from outside for a sentence, a log or a terminal: what could deceive is escaped."""

import math
import re
import unicodedata
from functools import cache
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


#: Control characters after U+001F, format characters (bidirectional marks, zero widths, tags), lone
#: surrogates, and the two separators that end a line in some viewers: the categories Cc, Cf, Cs, Zl
#: and Zp. Ranges, as asking for the category of each character takes a hundred times as long.
_HARMFUL: Final = (
    "\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u2064\u2066-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    "\U000e0020-\U000e007f"
)


def printable(text: str, *, keep: str = "\t") -> str:
    r"""Escape what could move the cursor, reverse or hide text, or begin a new line.

    *keep* has control characters that are not escaped.

    >>> printable("\x1b[31mred\tsea\n")
    '\\x1b[31mred\tsea\\n'
    >>> printable("Grüße \u202e \ud800")
    'Grüße \\u202e \\ud800'
    """
    if text.isprintable():
        return text
    return _harmful(keep).sub(lambda found: ascii(found[0])[1:-1], text)


def printable_json(document: str) -> str:
    r"""Escape the same in a JSON document; its strings keep their values.

    A lone surrogate stands for a byte that was not text, and readers of JSON may refuse it: its
    escape becomes text.

    >>> printable_json('{"name": "a\u202eb"}')
    '{"name": "a\\u202eb"}'
    """
    if document.isprintable():
        return document
    # Line ends are between its values, not in a string.
    return _harmful("\n").sub(lambda found: "".join(map(_escape_in_json, found[0])), document)


def shortened(text: str, most: int) -> str:
    """Leave out the middle of a text that is longer than *most* characters, and say so.

    >>> shortened("abcdefghij", 4)
    'ab … [6 characters left out] … ij'
    """
    left_out = len(text) - most
    if left_out <= 0:
        return text
    half = most // 2
    return f"{text[:half]} … [{left_out} characters left out] … {text[len(text) - (most - half) :]}"


@cache
def _harmful(keep: str) -> re.Pattern[str]:
    """Find whole runs of what is harmful, but for the control characters to *keep*."""
    first = "".join(char for char in map(chr, range(0x20)) if char not in keep)
    return re.compile(f"[{first}{_HARMFUL}]+")


def _escape_in_json(char: str) -> str:
    if unicodedata.category(char) == "Cs":
        return f"\\\\u{ord(char):04x}"
    pair = char.encode("utf-16-be").hex()
    return "".join(f"\\u{pair[at : at + 4]}" for at in range(0, len(pair), 4))
