"""The five places of a cron text, and the values that each takes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs


def _named(names: str, start: int) -> Mapping[str, int]:
    return MappingProxyType({name: start + index for index, name in enumerate(names.split())})


@attrs.frozen(kw_only=True, eq=False)
class FieldKind:
    """One of the five places.

    Numbers go from *least* to *most*; the field has *size* values, since in the week day 0 and 7
    are both Sunday. *position* is the place in the text, from 0.
    """

    name: str
    position: int
    least: int
    most: int
    size: int
    names: Mapping[str, int] = MappingProxyType({})

    @property
    def last(self) -> int:
        """The value at which an open step such as `5/2` ends."""
        return self.least + self.size - 1

    @property
    def full(self) -> int:
        """The mask of all values."""
        return (1 << self.size) - 1

    @property
    def allowed(self) -> str:
        """The values as a person would write them, such as `1-12 or JAN-DEC`."""
        names = [name.upper() for name in self.names]
        return f"{self.least}-{self.most}" + (f" or {names[0]}-{names[-1]}" if names else "")

    def bit(self, value: int) -> int:
        """The mask of one value; bit 0 is the least.

        >>> WEEK_DAY.bit(7), MONTH.bit(2)
        (1, 2)
        """
        return 1 << (value - self.least) % self.size


MINUTE: Final = FieldKind(name="minute", position=0, least=0, most=59, size=60)
HOUR: Final = FieldKind(name="hour", position=1, least=0, most=23, size=24)
MONTH_DAY: Final = FieldKind(name="day of month", position=2, least=1, most=31, size=31)
MONTH: Final = FieldKind(
    name="month",
    position=3,
    least=1,
    most=12,
    size=12,
    names=_named("jan feb mar apr may jun jul aug sep oct nov dec", 1),
)
WEEK_DAY: Final = FieldKind(
    name="week day",
    position=4,
    least=0,
    most=7,
    size=7,
    names=_named("sun mon tue wed thu fri sat", 0),
)
KINDS: Final = (MINUTE, HOUR, MONTH_DAY, MONTH, WEEK_DAY)
