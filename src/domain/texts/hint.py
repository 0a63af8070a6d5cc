"""What may have been meant by a name that nobody knows."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from .echo import LONGEST_ECHO
from .listing import listed

#: How many names are compared with a misspelt one, which is slow; and how many are listed.
MOST_COMPARED: Final = 1_000
MOST_LISTED: Final = 20


def hint(name: str, known: Sequence[str]) -> str:
    """Suggest the known name that may have been meant, or list those that there are.

    >>> hint("de-holiday", ["de-holidays"]), hint("x", ["de-holidays"]), hint("x", [])
    ('did you mean de-holidays?', 'there are de-holidays', 'there are none')
    """
    return meant(name, known) or f"there are {listed(sorted(known), most=MOST_LISTED) or 'none'}"


def meant(name: str, known: Sequence[str]) -> str | None:
    """Suggest the known name that may have been meant, where all of them are listed already."""
    close = get_close_matches(name[:LONGEST_ECHO], known[:MOST_COMPARED], n=1)
    return f"did you mean {close[0]}?" if close else None
