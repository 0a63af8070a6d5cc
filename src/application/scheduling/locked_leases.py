"""Attempts that lapsed while their rows were held: nobody could renew them, or record their end."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from cronhare.domain.execution import Execution
from cronhare.ports.attempts import AttemptStorePort, Busy
from cronhare.ports.ledger import LedgerUnavailable

from ..logs import say

log = logging.getLogger(__name__)


class LockedLeases:
    """Once such a row is free, its owner has a lease again to be heard.

    It is written into the row, in the owner's name: so all replicas heed it, and its version tells
    those who saw the row held that it was given. That happens once each time the row is held. If
    it cannot be written, the next look tries once more, and then waits no longer.
    """

    def __init__(self, attempts: AttemptStorePort, lease: timedelta) -> None:
        """*lease* is that of the workers."""
        self._attempts = attempts
        self._lease = lease
        self._before: dict[int, int] = {}
        self._held: dict[int, int] = {}  # the versions of those that the present look found held
        self._unwritten: dict[int, int] = {}  # and of those whose leases it could not write
        self._unwritten_before: dict[int, int] = {}

    def begin_round(self) -> None:
        """Begin a look: what the last one did not find held is forgotten."""
        self._before, self._held = self._held, {}
        self._unwritten_before, self._unwritten = self._unwritten, {}

    def note(self, found: Sequence[Execution], answers: Sequence[object]) -> None:
        """Note which of *found* could not be given up, for somebody held their rows.

        What was not asked is not among them: its owner may be dead, and nobody holds its row.
        """
        for each, told in zip(found, answers, strict=True):
            if isinstance(told, Busy) and told.is_asked:
                self._held[each.id] = each.version

    def renew_unlocked(self, found: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Write a lease for those of *found* that were held; answers the others."""
        known = self._before | self._held
        others = []
        by_owner = defaultdict[str, list[Execution]](list)
        for each in found:
            if each.owner is not None and known.get(each.id) == each.version:
                by_owner[each.owner].append(each)
            else:
                others.append(each)
        for owner, theirs in by_owner.items():
            others += self._spare(owner, theirs, now)
        return others

    def _spare(self, owner: str, theirs: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Write a lease for what *owner* runs; answers that of which it failed once before."""
        versions = {each.id: each.version for each in theirs}
        try:
            ids = versions.keys()
            renewal = self._attempts.renew(ids, now=now, node=owner, lease=self._lease)
        except LedgerUnavailable as error:
            text = f"No lease can be written for attempts of {owner} whose rows were held: {error}"
            say(log, logging.ERROR, "ledger.unavailable", text)
            self._held.update(versions)
            self._unwritten.update(versions)
            return [one for one in theirs if self._unwritten_before.get(one.id) == one.version]
        self._held.update({id_: versions[id_] for id_ in renewal.busy})
        return ()
