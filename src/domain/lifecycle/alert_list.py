"""Lists of alerts: which ones, and in which order."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Self

import attrs

from .alerts import SEVERITY_OF, RaisedAlert

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE: Final = re.compile(r"(held|over)-(-[0-9]{1,16}|[0-9]{1,17})-(.{1,255})")


@attrs.frozen(kw_only=True)
class AlertFilter:
    """Which alerts: None is whichever. Those that are *cleared* are listed after what holds."""

    rule: str | None = None
    severity: str | None = None
    schedule: str | None = None
    cleared: bool = False

    @property
    def rules(self) -> frozenset[str]:
        """The rules of which these are: how bad an alert is comes from its rule."""
        return frozenset(
            rule
            for rule, severity in SEVERITY_OF.items()
            if self.rule in {None, rule} and self.severity in {None, severity}
        )


@attrs.frozen(order=True)
class AlertPlace:
    """Where an alert stands in the list: what holds, then what is *over*; the newest first."""

    over: bool
    before: int
    key: str

    @classmethod
    def of(cls, alert: RaisedAlert) -> Self:
        """Give the place of an alert."""
        at = alert.cleared_at or alert.raised_at
        micros = (at - _EPOCH) // timedelta(microseconds=1)
        return cls(alert.cleared_at is not None, -micros, alert.key)

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Read a place as it is written; None if it is none.

        >>> str(AlertPlace.read("held-1772452800000000-queue:1f0c")), AlertPlace.read("7")
        ('held-1772452800000000-queue:1f0c', None)
        """
        if (found := _PLACE.fullmatch(text)) is None:
            return None
        return cls(found[1] == "over", -int(found[2]), found[3])

    @property
    def at(self) -> datetime:
        """When an alert here was raised, or what is over was cleared."""
        return _EPOCH - timedelta(microseconds=self.before)

    def __str__(self) -> str:
        return f"{'over' if self.over else 'held'}-{-self.before}-{self.key}"
