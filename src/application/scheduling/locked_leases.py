"""Leases that lapsed while their rows were locked: the owner could neither renew nor end them."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from cronhare.domain.execution import Execution
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import AttemptStorePort, Busy

from ..logs import say

log = logging.getLogger(__name__)


class LockedLeases:
    """Gives the owner of such a row another lease once the row is free.

    It is written into the row in the owner's name: so it holds for all replicas, and the row's
    version tells those that saw it locked that it was given. It is given once each time a row is
    locked. If it cannot be written, the next round tries once more, and then waits no longer.
    """

    def __init__(self, attempts: AttemptStorePort, lease: timedelta) -> None:
        """*lease* is that of the workers."""
        self._attempts = attempts
        self._lease = lease
        self._before: dict[int, int] = {}
        self._locked: dict[int, int] = {}  # versions of the rows that this round found locked
        self._unwritten: dict[int, int] = {}  # and of those whose leases it could not write
        self._unwritten_before: dict[int, int] = {}

    def begin_round(self) -> None:
        """Begin a round: what the last one did not find locked is forgotten."""
        self._before, self._locked = self._locked, {}
        self._unwritten_before, self._unwritten = self._unwritten, {}

    def note(self, found: Sequence[Execution], answers: Sequence[object]) -> None:
        """Note which of *found* could not be given up, as their rows are locked."""
        for each, answer in zip(found, answers, strict=True):
            if isinstance(answer, Busy):
                self._locked[each.id] = each.version

    def renew_unlocked(self, found: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Write a lease for those of *found* that were locked; answers the others."""
        known = self._before | self._locked
        others = []
        by_owner = defaultdict[str, list[Execution]](list)
        for each in found:
            if each.owner is not None and known.get(each.id) == each.version:
                by_owner[each.owner].append(each)
            else:
                others.append(each)
        for owner, theirs in by_owner.items():
            others += self._renew(owner, theirs, now)
        return others

    def _renew(self, owner: str, theirs: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Write leases in *owner*'s name; answers those for which that failed once before."""
        versions = {each.id: each.version for each in theirs}
        try:
            ids = versions.keys()
            renewal = self._attempts.renew(ids, now=now, node=owner, lease=self._lease)
        except LedgerUnavailable as error:
            text = f"No lease can be written for attempts of {owner} whose rows were held: {error}"
            say(log, logging.ERROR, "ledger.unavailable", text)
            self._locked.update(versions)
            self._unwritten.update(versions)
            return [one for one in theirs if self._unwritten_before.get(one.id) == one.version]
        self._locked.update({id_: versions[id_] for id_ in renewal.busy})
        return ()
