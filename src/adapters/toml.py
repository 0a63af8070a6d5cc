"""Reading a TOML text whose size is bounded, in a time and a memory that are bounded as well.

The reader of the standard library copies a dotted key once for each of its parts, keeps a kilobyte
for each table that a key opens, and descends by recursion: 50 KB of one key cost it gigabytes. So
a text is scanned before, once and by its signs alone.
"""

import re
import tomllib
from typing import Any, Final

from cronhare.domain.schedules.jobs_file import DEEPEST, LONGEST_WORD, MOST_PIECES

#: What a scan stops at. A comment is no more than the end of its line.
_SIGN: Final = re.compile(r'"""|\'\'\'|["\'\[\]{}.,=]|(?:#[^\n]*)?(?:\n\s*|\Z)')

#: What a scan stops at within a text that begins so. Up to two quotes more than three belong to it.
_IN_TEXT: Final = {
    '"""': re.compile(r'\\.|"{3,5}', re.DOTALL),
    "'''": re.compile(r"'{3,5}"),
    '"': re.compile(r'\\.|["\n]'),
    "'": re.compile(r"['\n]"),
}


class TooMuch(ValueError):
    """A text that would take too long to read; what it says continues the name of its file."""


def read_toml(text: str) -> dict[str, Any]:
    """Read a text, if it has no more than a bounded reader can bear.

    Raises:
        TooMuch: it has more than that.
        tomllib.TOMLDecodeError: it is not TOML.
        ValueError: it has a number of thousands of digits.
    """
    _scan(text)
    return tomllib.loads(text)


def _scan(text: str) -> None:
    """Count the parts of each key, what is open around it, and all keys and values.

    What is no TOML is counted somehow: the reader stops where it begins.
    """
    depth = pieces = end = 0
    parts = 1
    while end < len(text) and (sign := _SIGN.search(text, end)):
        if sign.start() - end > LONGEST_WORD and _is_word(text[end : sign.start()]):
            raise _too_much(f"a word of more than {LONGEST_WORD:,} characters", text, end)
        end = sign.end()
        mark = sign[0]
        if mark in _IN_TEXT:
            end = _after_text(text, end, mark)
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


def _is_word(between: str) -> bool:
    return len(between.strip()) > LONGEST_WORD


def _after_text(text: str, start: int, quotes: str) -> int:
    """Find where a text ends that began with *quotes* before *start*."""
    for sign in _IN_TEXT[quotes].finditer(text, start):
        if not sign[0].startswith("\\"):
            return sign.end()
    return len(text)


def _too_much(what: str, text: str, place: int) -> TooMuch:
    return TooMuch(f"has {what}, as of line {text.count(chr(10), 0, place) + 1}")
