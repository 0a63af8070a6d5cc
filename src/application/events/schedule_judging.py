"""Judging the schedules of a file in turns: of very many all would take longer than a look may."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.lifecycle.alerts import EVERY, JUDGED_WITHIN, Alert
from cronhare.domain.lifecycle.schedule_alerts import judge_schedule
from cronhare.domain.retries.leaps import has_passed
from cronhare.domain.schedules.alert_rules import AlertConditions
from cronhare.domain.schedules.notify import Subscriptions
from cronhare.ports.events import AlertChanges, AlertStorePort

from ..logs import say

log = logging.getLogger(__name__)

#: Seconds that one look may judge schedules, and how many it reads at a time. What else a process
#: looks for waits so long, and `LONGEST_GAP` is never reached.
TURN: Final = 2.0
AT_ONCE: Final = 250


class ScheduleJudgement:
    """One judgement of schedules, as they are at *now*; kept once all have been looked at."""

    def __init__(
        self,
        alerts: AlertStorePort,
        watched: Mapping[int, AlertConditions],
        *,
        source: str,
        now: datetime,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*monotonic* is a stopwatch."""
        self.now = now
        self._alerts = alerts
        self._watched = watched
        self._source = source
        self._monotonic = monotonic
        self._began = monotonic()
        self._left = [*watched]
        self._held = list[Alert]()

    def go_on(self) -> bool:
        """Judge for a turn; answers whether some are left."""
        until = self._monotonic() + TURN
        while self._left:
            page, self._left = self._left[:AT_ONCE], self._left[AT_ONCE:]
            self._held += self._judged({id_: self._watched[id_] for id_ in page})
            if self._monotonic() >= until:
                break
        return bool(self._left)

    def keep(self, *, ended_at: datetime) -> AlertChanges:
        """Note what held, unless another that began later has ended meanwhile."""
        took = self._monotonic() - self._began
        if took > EVERY.total_seconds():
            text = (
                f"Judging {len(self._watched):,} schedules of {self._source} took {took:.0f} s: "
                "their alerts come late. The ledger is slow, or fewer schedules should ask for them"
            )
            say(log, logging.WARNING, "alert.slow", text)
        return self._alerts.keep(self._held, now=self.now, ended_at=ended_at, source=self._source)

    def _judged(self, watched: Mapping[int, AlertConditions]) -> Iterator[Alert]:
        usual = {id_ for id_, each in watched.items() if each.longer_than_usual}
        for signs in self._alerts.schedule_signs(watched, usual=usual, now=self.now):
            conditions = watched[signs.scheduler_id]
            yield from judge_schedule(signs, conditions, self.now, source=self._source)


@attrs.frozen
class UnderWay:
    """A judgement that a look has left half-way: of the subscriptions that it began with.

    One that *is_anew* took the place of another that was cut off. It is not cut off for a reload
    once more: these may come more often than judging very many takes.
    """

    judgement: ScheduleJudgement
    of: Subscriptions
    left_at: datetime
    is_anew: bool = False

    def goes_on(self, subscriptions: Subscriptions, now: datetime) -> bool:
        """Tell whether the next look came soon, and may go on with this: else it is cut off."""
        is_late = has_passed(JUDGED_WITHIN * EVERY, self.left_at, now)
        return not is_late and (self.is_anew or subscriptions is self.of)
