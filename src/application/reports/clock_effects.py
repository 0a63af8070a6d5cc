"""What the changes of a zone's clock do to the runs of an expression, for people."""

import enum
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

import attrs

from cronhare.domain.cron.expression import CronExpression
from cronhare.domain.cron.timeline import (
    AS_CRON,
    CORRECTION,
    FIRST_MINUTE,
    LAST_MINUTE,
    ClockChanges,
    Fold,
    Gap,
    minute_of,
    moment_of,
    timeline_of,
)


class EffectKind(enum.StrEnum):
    """What becomes of a time."""

    MOVED = "moved"
    SKIPPED = "skipped"
    FIRST_PASS = "first-pass"  # noqa: S105 - no password
    SECOND_PASS = "second-pass"  # noqa: S105


@attrs.frozen
class ClockEffect:
    """What becomes of the wall time *meant*, which is naive.

    *at* is the instant, in UTC, of the run; of a time that is skipped the change of the clock.
    """

    kind: EffectKind
    at: datetime
    meant: datetime

    def __str__(self) -> str:
        """Say it.

        >>> meant = datetime(2026, 3, 29, 2, 30)
        >>> str(ClockEffect(EffectKind.MOVED, datetime(2026, 3, 29, 1, tzinfo=UTC), meant))
        '02:30 does not exist that day: it runs after the gap'
        """
        return f"{self.meant:%H:%M} {_SAID[self.kind]}"


_SAID = {
    EffectKind.MOVED: "does not exist that day: it runs after the gap",
    EffectKind.SKIPPED: "does not exist that day: it is skipped",
    EffectKind.FIRST_PASS: "comes twice that day: it runs the first time",
    EffectKind.SECOND_PASS: "comes twice that day: it runs the second time",
}


def clock_effects(
    expression: CronExpression,
    zone: ZoneInfo,
    changes: ClockChanges = AS_CRON,
    *,
    after: datetime,
    until: datetime,
) -> Iterator[ClockEffect]:
    """Yield what the changes of the clock from *after* to *until* do, change by change.

    A wildcard is neither moved nor skipped: it runs at each real minute that matches.
    """
    first = max(minute_of(after), FIRST_MINUTE)
    last = min(minute_of(until), LAST_MINUTE)
    for change, before, now in timeline_of(zone).changes(first, last):
        if 0 < now - before < CORRECTION and not expression.wildcard:
            yield from _leapt(expression, changes, change, change + before, change + now)
        elif 0 < before - now < CORRECTION:
            for wall in _times(expression, change + now, change + before):
                yield from _passes(expression, changes, wall, wall - before, wall - now)


def _leapt(
    expression: CronExpression, changes: ClockChanges, change: int, reached: int, wall: int
) -> Iterator[ClockEffect]:
    kind = EffectKind.SKIPPED if changes.gap is Gap.SKIP else EffectKind.MOVED
    for time in _times(expression, reached, wall):
        yield ClockEffect(kind, moment_of(change), _naive(time))


def _passes(
    expression: CronExpression, changes: ClockChanges, wall: int, first: int, second: int
) -> Iterator[ClockEffect]:
    fold = Fold.BOTH if expression.wildcard else changes.fold
    if fold is not Fold.SECOND:
        yield ClockEffect(EffectKind.FIRST_PASS, moment_of(first), _naive(wall))
    if fold is not Fold.FIRST:
        yield ClockEffect(EffectKind.SECOND_PASS, moment_of(second), _naive(wall))


def _times(expression: CronExpression, first: int, end: int) -> Iterator[int]:
    return takewhile(lambda wall: wall < end, expression.wall_times(first))


def _naive(wall: int) -> datetime:
    return moment_of(wall).astimezone(UTC).replace(tzinfo=None)
