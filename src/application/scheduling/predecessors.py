"""Ending what earlier processes of our name were running, without waiting for its leases."""

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

import attrs

from cronhare.domain.execution import Execution
from cronhare.domain.nodes import Node, departed, silence
from cronhare.domain.texts.words import counted
from cronhare.ports import LedgerUnavailable
from cronhare.ports.claims import ClaimStorePort

from ..logs import say
from .reconcile import Reconciler

log = logging.getLogger(__name__)

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
    _reconciler: Reconciler
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
