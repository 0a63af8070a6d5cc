"""`H`, `H(a-b)`, `H/n` and `H(a-b)/n`: numbers that a schedule's name fixes, as in Jenkins.

Many schedules with `H * * * *` spread over the hour, and each keeps its minute for as long as it
keeps its name. The numbers are read as if they had been written: `H/15` as, say, `7-59/15`.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import attrs

from ..texts.printable import shown
from .errors import CronFault
from .fields import fault_of
from .items import range_of
from .kinds import KINDS, MONTH_DAY, FieldKind
from .refusals import Refusal

_ITEM: Final = re.compile(r"h(?:\(([0-9a-z]+)-([0-9a-z]+)\))?(?:/([0-9]+))?")

#: An item that is hashed: no name of a month or a day begins so.
_HASHED: Final = re.compile(r"(?:^|[\s,])h", re.IGNORECASE)

#: The last day of a month that `H` takes: one that each month has.
LAST_HASHED_DAY: Final = 28


@attrs.frozen
class Resolved:
    """Fields in which numbers stand for each H; with *faults* the rest means nothing."""

    fields: tuple[str, ...]
    faults: tuple[CronFault, ...]


def names_matter(text: str) -> bool:
    """Tell whether a cron text may mean something else for each name, without reading it.

    >>> names_matter("H 3 * * *"), names_matter("0 3 * * THU"), names_matter("@hourly")
    (True, False, False)
    """
    # The letter alone says no for nearly all, in a tenth of the time.
    return ("h" in text or "H" in text) and _HASHED.search(text) is not None


def resolve(fields: Sequence[str], name: str | None) -> Resolved:
    """Put the numbers of the schedule called *name* for each H; without a name, faults.

    >>> resolve(["h", "h(8-17)", "*", "*", "h/2"], "nightly").fields
    ('21', '14', '*', '*', '0-6/2')
    """
    faults: list[CronFault] = []
    resolved: list[str] = []
    for kind, field in zip(KINDS, fields, strict=True):
        items: list[str] = []
        for item in field.split(","):
            try:
                items.append(_resolve(kind, item, name) if item.startswith("h") else item)
            except Refusal as refusal:
                faults.append(fault_of(kind, item, refusal))
                items.append(str(kind.least))
        resolved.append(",".join(items))
    return Resolved(tuple(resolved), tuple(dict.fromkeys(faults)))


def _resolve(kind: FieldKind, item: str, name: str | None) -> str:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise Refusal(f'"{shown(item)}" is not understood', "write H, H(a-b), H/n or H(a-b)/n")
    first, last = _bounds(kind, item, match[1], match[2])
    width = last - first + 1
    step = None if match[3] is None else int(match[3])
    if step == 0:
        raise Refusal(f'the step in "{shown(item)}" is 0', "the least step is 1")
    if step is not None and step > width:
        raise Refusal(f'the step in "{shown(item)}" is larger than its range, {first}-{last}')
    if name is None:
        raise Refusal(
            f'"{shown(item)}" stands for a number that is made of the schedule\'s name, and there '
            "is none"
        )
    if step is None:
        return str(first + _number(name, kind) % width)
    begin = first + _number(name, kind) % step
    return f"{begin}-{last}/{step}" if begin + step <= last else str(begin)


def _bounds(kind: FieldKind, item: str, start: str | None, stop: str | None) -> tuple[int, int]:
    if start is None or stop is None:
        return kind.least, LAST_HASHED_DAY if kind is MONTH_DAY else kind.last
    return range_of(kind, item, start, stop)


def _number(name: str, kind: FieldKind) -> int:
    """Make a number of a name: another one for each field, the same on each replica for ever."""
    text = f"{kind.position} {name}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest())
