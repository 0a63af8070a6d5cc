"""One field of a cron text: a comma list of items."""

from functools import lru_cache

import attrs

from ..texts.printable import shown
from .errors import CronFault
from .extensions import Extension
from .items import read_numbers, read_word
from .kinds import MONTH_DAY, WEEK_DAY, FieldKind
from .refusals import Refusal


@attrs.frozen(kw_only=True, eq=False)
class Field:
    """A field, read. Bit 0 of *mask* is the least value of its kind; *words* are day words.

    *plain* is true for `*` and `?`, the only texts that restrict nothing; *starred* for a text
    that begins with a star. *notes* are warnings. If there are *faults*, the rest means nothing.
    """

    text: str
    mask: int
    words: tuple[Extension, ...]
    notes: tuple[str, ...]
    faults: tuple[CronFault, ...]

    @property
    def plain(self) -> bool:
        """Whether the field restricts nothing: only a bare star or question mark does so."""
        return self.text in {"*", "?"}

    @property
    def starred(self) -> bool:
        """Whether the text begins with a star; in minute or hour that makes a wildcard job."""
        return self.text.startswith("*")


@lru_cache(maxsize=8192)
def read_field(kind: FieldKind, text: str) -> Field:
    """Read a field, in lower case. It never raises: what is wrong is in `faults`."""
    mask = 0
    words: list[Extension] = []
    notes: list[str] = []
    faults: list[CronFault] = []
    for item in _items(kind, text):
        try:
            if word := read_word(kind, item):
                words.append(word)
                continue
            bits, note = read_numbers(kind, item)
        except Refusal as refusal:
            faults.append(fault_of(kind, item, refusal))
        else:
            mask |= bits
            notes += [note] if note else []
    return Field(
        text=text,
        mask=mask,
        words=tuple(words),
        notes=tuple(dict.fromkeys(notes)),
        faults=tuple(dict.fromkeys(faults)),
    )


def _items(kind: FieldKind, text: str) -> list[str]:
    if text == "?" and kind in {MONTH_DAY, WEEK_DAY}:
        return ["*"]
    return text.split(",")


def fault_of(kind: FieldKind, item: str, refusal: Refusal) -> CronFault:
    """Make a fault of a refused item."""
    return CronFault(
        field=kind.name,
        item=shown(item),
        reason=refusal.reason,
        allowed=kind.allowed,
        hint=refusal.hint,
    )
