"""Due instants to come, with what the changes of the clock do to them."""

from datetime import datetime
from typing import Self

import attrs

from cronhare.domain.cron import ClockEffect, EffectKind


@attrs.frozen(kw_only=True)
class ClockEffectView:
    """What a change of the clock does to the wall time *meant*; *text* says it.

    *at* is the run; of a time that is skipped the change of the clock.
    """

    kind: EffectKind
    at: datetime
    meant: str
    text: str

    @classmethod
    def of(cls, effect: ClockEffect) -> Self:
        """Show what a change of the clock does."""
        meant = f"{effect.meant:%Y-%m-%dT%H:%M}"
        return cls(kind=effect.kind, at=effect.at, meant=meant, text=str(effect))


@attrs.frozen(kw_only=True)
class DueView:
    """A due instant, in UTC and in its schedule's zone.

    Where *runs* is false it is a change of the clock that leapt over a time, which is skipped.
    *why_not* says which condition, or pause, will not let it run as things are.
    """

    utc: datetime
    local: datetime
    runs: bool
    clock: tuple[ClockEffectView, ...]
    why_not: str | None = None
