"""What tells the lost from the slow: gaps, graces, locked rows, and processes of our own name."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.nodes import Node, departed, silence
from cronhare.domain.texts.words import counted
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import AttemptStorePort, Busy
from cronhare.ports.claims import ClaimStorePort

from ..logs import say

if TYPE_CHECKING:
    from .reconcile import Reconciler

log = logging.getLogger(__name__)

#: So often in a row a grace period may begin anew. What keeps failing must not keep the dead alive.
MOST_IN_A_ROW: Final = 20


class GapDetector:
    """Notices a suspend of the machine, or a clock that was set: by both leases may lapse."""

    def __init__(self, *, every: timedelta, lease: timedelta) -> None:
        self._tolerance = lease / 3
        self._longest = every + lease / 3
        self._last: tuple[datetime, float] | None = None

    def check(self, now: datetime, at: float) -> str | None:
        """Describe the gap since the last check, if any; *at* is a stopwatch's, in seconds."""
        last, self._last = self._last, (now, at)
        if last is None:
            return None
        passed = timedelta(seconds=at - last[1])
        leap = now - last[0] - passed
        if abs(leap) > self._tolerance:
            return f"the ledger's clock has leapt by {leap.total_seconds():+.0f} s against ours"
        if passed > self._longest:
            return f"nobody looked for {passed.total_seconds():.0f} s"
        return None


@attrs.define(eq=False)
class GracePeriod:
    """The length of a lease after a gap, in which nothing that has lapsed is given up.

    Owners renew what they run, or record what has ended. Another gap meanwhile begins it anew, up
    to `MOST_IN_A_ROW` times; then what has lapsed is given up once in any case. *lease* is that of
    the workers; *owners* names the nodes that run something.
    """

    _lease: timedelta
    _owners: Callable[[], Collection[str]] = attrs.field(kw_only=True)
    _why: str | None = attrs.field(init=False, default=None)
    _until: datetime | None = attrs.field(init=False, default=None)
    _in_a_row: int = attrs.field(init=False, default=0)

    def begin(self, why: str) -> None:
        self._why = self._why or why

    def lasts(self, now: datetime) -> bool:
        why, self._why = self._why, None
        if why is not None and self._in_a_row < MOST_IN_A_ROW:
            self._in_a_row += 1
            self._until = now + self._lease
            if self._owners():  # of a new ledger there is nothing to log
                seconds = f"{self._lease.total_seconds():.0f} s"
                text = f"Workers have {seconds} to renew what they run: {why}"
                say(log, logging.INFO, "reconcile.spared", text)
        if self._until is not None and timedelta(0) < self._until - now <= self._lease:
            return True
        self._until, self._in_a_row = None, 0
        return False


@attrs.define(eq=False)
class LockedLeases:
    """Gives the owner of such a row another lease once the row is free.

    It is written into the row in the owner's name: so it holds for all replicas, and the row's
    version tells those that saw it locked that it was given. It is given once each time a row is
    locked. If it cannot be written, a *grace* period begins instead: the owner can reach its row.
    """

    _attempts: AttemptStorePort
    _lease: timedelta
    _grace: GracePeriod
    #: The versions of the rows that this round and the one before found locked, by id.
    _locked: dict[int, int] = attrs.field(init=False, factory=dict[int, int])
    _before: dict[int, int] = attrs.field(init=False, factory=dict[int, int])

    def begin_round(self) -> None:
        self._before, self._locked = self._locked, {}

    def note(self, found: Sequence[Execution], answers: Sequence[object]) -> None:
        for each, answer in zip(found, answers, strict=True):
            if isinstance(answer, Busy):
                self._locked[each.id] = each.version

    def renew_unlocked(self, found: Sequence[Execution], now: datetime) -> Sequence[Execution]:
        """Write a lease for those of *found* that were locked; answers the others."""
        known = self._before | self._locked
        others = list[Execution]()
        by_owner = defaultdict[str, dict[int, int]](dict)
        for each in found:
            if each.owner is not None and known.get(each.id) == each.version:
                by_owner[each.owner][each.id] = each.version
            else:
                others.append(each)
        try:
            for owner, theirs in by_owner.items():
                self._attempts.renew(theirs.keys(), now=now, node=owner, lease=self._lease)
                self._locked.update(theirs)  # of what is written the version is another
        except LedgerUnavailable as error:  # the fault of one row, perhaps: it costs no other one
            self._grace.begin(f"no lease could be written for what was locked: {error}")
        return others


#: How often a suspected owner's leases are looked at before it counts as gone.
LOOKS = 5


@attrs.define(kw_only=True, eq=False)
class PredecessorCleanup:
    """Done once, when a process that runs tasks starts.

    An owner of our own PID namespace is known to be gone if its PID is. One of another namespace
    with our host name and PID is our predecessor in a restarted container, or a neighbour in a
    container that shares the host's name: a neighbour renews its leases.

    *lives* tells whether a PID is in use; *lease* is that of all workers.
    """

    _claims: ClaimStorePort
    _reconciler: "Reconciler"
    _ourselves: Node
    _lives: Callable[[int], bool]
    _lease: timedelta
    _suspected: Sequence[Execution] = attrs.field(init=False, default=())
    _looks: int = attrs.field(init=False, default=0)

    def round(self) -> float | None:
        """End what can be ended; answers how many seconds to wait for more, None if it is done."""
        if self._suspected:
            return self._look_again()
        others = departed(self._claims.owners(), ourselves=self._ourselves, lives=self._lives)
        if others.gone:
            lost = self._reconciler.end_run_by(others.gone, self._claims.now())
            _log_ended(lost, others.gone)
        self._suspected = self._run_by(others.suspected)
        if not self._suspected:
            return None
        text = (
            f"{_owners(self._suspected)}: our host name and PID, elsewhere. What it runs "
            f"({len(self._suspected)}) is lost unless it renews a lease within "
            f"{silence(self._lease).total_seconds():.0f} s"
        )
        say(log, logging.INFO, "settle.suspected", text)
        return self._pause

    def _look_again(self) -> float | None:
        """Count the looks that found nothing renewed, anew after an outage of the ledger."""
        try:
            found = self._run_by({each.owner or "" for each in self._suspected})
        except LedgerUnavailable:
            self._looks = 0
            raise
        versions = {each.id: each.version for each in found}
        silent = [each for each in self._suspected if versions.get(each.id) == each.version]
        if any(versions.get(each.id, each.version) != each.version for each in self._suspected):
            text = (
                f"{_owners(self._suspected)} lives: a neighbour with our host name. Give "
                "each container a host name of its own, so that their logs can be told apart"
            )
            say(log, logging.INFO, "settle.neighbour", text)
        self._suspected = silent
        self._looks += 1
        if not silent:
            return None
        if self._looks < LOOKS:
            return self._pause
        lost = self._reconciler.give_up(silent, self._claims.now())
        _log_ended(lost, {each.owner or "" for each in silent})
        return None

    def _run_by(self, nodes: Collection[str]) -> Sequence[Execution]:
        return self._reconciler.run_by(nodes) if nodes else ()

    @property
    def _pause(self) -> float:
        return silence(self._lease).total_seconds() / LOOKS


def _log_ended(lost: int, gone: Collection[str]) -> None:
    if lost:
        names = ", ".join(sorted(gone))
        text = f"Settled {counted(lost, 'attempt')} that {names} left behind: it is gone"
        say(log, logging.WARNING, "settle", text)


def _owners(found: Sequence[Execution]) -> str:
    return ", ".join(sorted({each.owner or "" for each in found}))
