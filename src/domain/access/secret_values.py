"""How far a secret's value reaches in a text: a word, quotes, brackets, a block, a line.

Half a value hidden is worse than none: who reads takes the rest for something else.
"""

import re
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import Final

HIDDEN: Final = "***"

#: What languages write before a quote: Python's b'x', the shell's $'x', SQL's N'x'.
_PREFIX: Final = r"(?:(?:[befnru]{1,2}|[$@])(?=\\*[\"']))?"
_ESCAPED: Final = r"(?P<escaped>\\+[\"'])[\s\S]*?(?:(?<!\\)(?P=escaped)|\Z)"
_QUOTED: Final = r"(?:\"(?:[^\"\\]|\\[\s\S])*(?:\"|\\?\Z)|'(?:[^'\\]|\\[\s\S])*(?:'|\\?\Z))"
_VALUE: Final = re.compile(
    rf"{_PREFIX}{_ESCAPED}"
    r"|[|>][-+\d]{0,2}[ \t]{0,8}\r?\n(?:[ \t][^\n]*(?:\n|\Z)|\r?\n)+"  # a block of YAML
    r"|-[ \t]+[^\r\n]*(?:\r?\n[ \t]*+-[ \t]+[^\r\n]*)*"  # and a list
    rf"|(?:{_PREFIX}{_QUOTED}[^\s\"'.,;:)\]}}>&|\\]*)+"  # SQL's 'it''s', the shell's 'a'"b"
    r"|(?:(?:basic|bearer|digest|negotiate|token)[ \t]+)?[^\s\"']+",
    re.IGNORECASE,
)
#: All of a line, but for a quote that closes what began before it.
_LINE: Final = re.compile(
    rf"(?!{_PREFIX}\\*[\"'])(?:(?<=[=\s])(?:\"[^\r\n\"]*\"|'[^\r\n']*')|[^\r\n\"'])+", re.IGNORECASE
)
#: `["x y"]`, `{'a': "x y"}`, `$(pass "x y")`, `Secret("x y")`: where there is a blank in quotes.
_OPENING: Final = re.compile(
    r"(?:[\w.]{1,60}\((?=\s{0,8}[befnru]{0,2}\\*[\"'])|\$?[\[{(])", re.IGNORECASE
)
_IN_BRACKETS: Final = re.compile(
    rf"(?<!\\){_ESCAPED}|{_QUOTED}|(?P<opens>[\[{{(])|(?P<closes>[\])}}])"
)
#: `ada:x`, of which the user is no secret by itself.
_PAIR: Final = re.compile(r"\\*[\"']?[^\s:\"']{0,200}:")


def is_pair(text: str, start: int = 0) -> bool:
    """Tell whether what begins at *start* is a user with a password."""
    return _PAIR.match(text, start) is not None


def end_of_value(text: str, start: int, *, is_line: bool = False) -> int:
    """Tell where the value that begins at *start* ends: there, if it is none.

    >>> [end_of_value(each, 0) for each in ("ab cd", "'a b' cd", "b'a b' cd", '["a b"], cd')]
    [2, 5, 6, 7]
    >>> end_of_value('a b" cd', 0, is_line=True)
    3
    """
    found = (_LINE.match(text, start) if is_line else None) or _VALUE.match(text, start)
    end = found.end() if found else start
    opening = _OPENING.match(text, start)
    return max(end, _end_of_brackets(text, opening.end() - 1)) if opening else end


def _end_of_brackets(text: str, start: int) -> int:
    depth = 0
    for found in _IN_BRACKETS.finditer(text, start):
        depth += (found["opens"] is not None) - (found["closes"] is not None)
        if depth == 0:
            return found.end()
    return len(text)


def hide(text: str, values: Iterable[tuple[int, int]]) -> str:
    """Hide the values that begin and end there, of which none reaches into the next."""
    edges = [0, *chain.from_iterable(values), len(text)]
    return HIDDEN.join(text[end:start] for end, start in list(pairwise(edges))[::2])
