"""Judging the whole ledger once a minute: any process may, whether or not it has a jobs file."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.lifecycle.alert_policy import AlertPolicy
from cronhare.domain.lifecycle.alerts import EVERY, Alert, judge
from cronhare.domain.lifecycle.system_alerts import judge_system
from cronhare.domain.nodes import MOST_REPORTS, served
from cronhare.domain.retries.leaps import has_passed
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.events import AlertChanges, AlertStorePort

from ..logs import say

log = logging.getLogger(__name__)

#: After a longer time between two looks the ledger may have been away, and with it all reports. A
#: node that could not report itself for so long does so before it counts as ended.
LONGEST_GAP: Final = timedelta(seconds=20)


class LedgerJudge:
    """Judges the alerts of no schedule. Each thread has one of its own; the ledger lets one judge.

    It remembers since when it could look without a gap: what is older says nothing of a node.
    """

    def __init__(
        self,
        *,
        alerts: AlertStorePort,
        nodes: NodeStorePort,
        policy: AlertPolicy,
        now: Callable[[], datetime],
    ) -> None:
        """*policy* is best the same on all nodes: any of them may be the one that judges.

        *now* asks for the ledger's time, when a judgement has ended.
        """
        self._now = now
        self._alerts = alerts
        self._nodes = nodes
        self._policy = policy
        self._looked_at: datetime | None = None
        self._judged_at: datetime | None = None
        self._watched_since: datetime | None = None

    def look(self, now: datetime) -> None:
        """Judge, if a minute has passed. At *now* the ledger has answered.

        To be called more often than `LONGEST_GAP`.
        """
        last, self._looked_at = self._looked_at, now
        if last is None or not timedelta(0) <= now - last <= LONGEST_GAP:
            self._watched_since = now
        if not has_passed(EVERY, self._judged_at, now):
            return
        if self._alerts.begin(now=now, every=EVERY):
            held = [*self._held(now)]
            say_changes(self._alerts.keep(held, now=now, ended_at=self._now()))
        self._judged_at = now

    def _held(self, now: datetime) -> Iterator[Alert]:
        yield from judge(self._alerts.signs(now=now, retries=self._policy.retries), self._policy)
        reports, since = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports, self._watched_since
        at_work = served(reports, now, watched_since=since)
        signs = self._alerts.system_signs(now=now, served=at_work)
        yield from judge_system(attrs.evolve(signs, nodes=reports, watched_since=since), now)


def say_changes(changes: AlertChanges) -> None:
    """Log which alerts were raised, and which are over."""
    for alert in changes.raised:
        say(log, logging.WARNING, "alert.raised", alert.message, rule=alert.rule)
    for alert in changes.cleared:
        about = f" of {alert.subject}" if alert.subject else ""
        text = f"The alert {alert.rule}{about} is over"
        say(log, logging.INFO, "alert.cleared", text, rule=alert.rule)
