"""Publishing what follows ends: at once, and again where no queue is known to have it (ADR 20)."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

import attrs

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.messages.messages import AttemptRef
from cronhare.domain.messages.signing import Seal
from cronhare.ports.attempts import Finish
from cronhare.ports.broker import BrokerPort, Published
from cronhare.ports.claims import ClaimStorePort

from ..outcome_log import log_late
from ..publishing.follow_up import follow_up, follow_up_late, is_last
from ..publishing.missing_queues import MissingQueues, Sent
from .paging import PAGE, PAGES, pages

#: An attempt that was given up, and the state it has since.
GivenUp = tuple[Finish, State]

#: So many late ends are remembered as logged.
MOST_LOGGED: Final = PAGE * PAGES


@attrs.define(kw_only=True, eq=False)
class EndPublisher:
    """Publishes retries, failures and quarantines of attempts that a reconciler ended or found."""

    _claims: ClaimStorePort
    _broker: BrokerPort
    _missing_queues: MissingQueues
    _seal: Seal
    _graces: Graces
    _limit: int
    _logged: dict[AttemptRef, None] = attrs.field(init=False, factory=dict[AttemptRef, None])

    def publish(self, ended: Sequence[GivenUp], now: datetime) -> None:
        """Publish what follows these ends."""
        following = (
            (follow_up(finish, state, now=now, seal=self._seal), finish.execution)
            for finish, state in ended
        )
        self._publish(
            [Sent.of(envelope, of) for envelope, of in following if envelope is not None], now
        )

    def publish_overdue(self, now: datetime) -> None:
        """Publish what follows last attempts, where no queue is known to have it.

        Whoever ended them died since, or never learned that they had ended, or the broker was away.
        """
        if not self._broker.is_reachable():
            return  # or each would be logged, and sent in vain, again and again
        find = partial(self._claims.overdue_ends, now=now, graces=self._graces, limit=self._limit)
        for found in pages(find, limit=self._limit):
            following: list[Sent] = []
            for ended in found:
                self._log_once(ended)
                late = follow_up_late(ended, self._seal)
                following.append(
                    Sent(envelope=late, ticket=ended.ticket, schedule_name=ended.schedule_name)
                )
            if self._publish(following, now) < len(following):
                break

    def _log_once(self, ended: Archived) -> None:
        """Log an end once, however often its message has to be sent."""
        if ended.ticket in self._logged:
            return
        if len(self._logged) >= MOST_LOGGED:
            del self._logged[next(iter(self._logged))]
        self._logged[ended.ticket] = None
        log_late(ended)

    def _publish(self, following: Sequence[Sent], now: datetime) -> int:
        """Publish messages, and count those that a queue has."""
        if not following:
            return 0
        outcomes = self._broker.publish([each.envelope for each in following])
        self._missing_queues.note(following, outcomes, now=now)
        pairs = zip(following, outcomes, strict=True)
        confirmed = [each for each, outcome in pairs if outcome is Published.CONFIRMED]
        if last := [each.ticket for each in confirmed if is_last(each.envelope)]:
            self._claims.mark_ends_published(last)
            for ticket in last:
                self._logged.pop(ticket, None)
        return len(confirmed)
