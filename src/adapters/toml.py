"""Parsing a TOML text of bounded size in bounded time and memory.

The standard library's parser copies a dotted key once for each of its parts, keeps a kilobyte for
each table that a key opens, and recurses: 50 KB of one key cost it gigabytes. So the text is
scanned first, once, for its punctuation alone.
"""

import re
import tomllib
from typing import Any, Final

from cronhare.domain.schedules.catalog import DEEPEST, LONGEST_WORD, MOST_PIECES

#: What a scan stops at. A comment is no more than the end of its line.
_SIGN: Final = re.compile(r'"""|\'\'\'|["\'\[\]{}.,=]|(?:#[^\n]*)?(?:\n\s*|\Z)')

#: Where a scan stops within a string, by its quotes. Up to two quotes more than three belong to it.
_IN_STRING: Final = {
    '"""': re.compile(r'\\.|"{3,5}', re.DOTALL),
    "'''": re.compile(r"'{3,5}"),
    '"': re.compile(r'\\.|["\n]'),
    "'": re.compile(r"['\n]"),
}


class TooMuch(ValueError):
    """A text that would take too long to parse; the message continues the name of its file."""


def read_toml(text: str) -> dict[str, Any]:
    """Parse a text, if its parts are within the bounds of `domain.schedules.catalog`.

    Raises:
        TooMuch: they are not.
        tomllib.TOMLDecodeError: it is not TOML.
        ValueError: it has a number of thousands of digits.
    """
    _scan(text)
    return tomllib.loads(text)


def _scan(text: str) -> None:
    """Count the parts of each key, the depth of nesting, and all keys and values.

    What is no TOML may be miscounted: the parser stops where it begins.
    """
    depth = pieces = end = 0
    parts = 1
    while end < len(text) and (sign := _SIGN.search(text, end)):
        if sign.start() - end > LONGEST_WORD < len(text[end : sign.start()].strip()):
            raise _too_much(f"a word of more than {LONGEST_WORD:,} characters", text, end)
        end = sign.end()
        mark = sign[0]
        if mark in _IN_STRING:
            end = _end_of_string(text, end, mark)
        elif mark == ".":
            parts, pieces = parts + 1, pieces + 1
        else:
            parts = 1
            depth += (mark in "[{") - (mark in "]}")
            pieces += mark in "[{,="
        if max(parts, depth) > DEEPEST:
            raise _too_much(f"more than {DEEPEST} tables and lists in one another", text, end)
        if pieces > MOST_PIECES:
            raise _too_much(f"more than {MOST_PIECES:,} keys and values", text, end)


def _end_of_string(text: str, start: int, quotes: str) -> int:
    """Find the end of the string whose opening *quotes* end at *start*."""
    for sign in _IN_STRING[quotes].finditer(text, start):
        if not sign[0].startswith("\\"):
            return sign.end()
    return len(text)


def _too_much(what: str, text: str, place: int) -> TooMuch:
    return TooMuch(f"has {what}, as of line {text.count(chr(10), 0, place) + 1}")
