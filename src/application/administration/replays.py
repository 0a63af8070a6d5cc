"""Replays of many failures, as people order, watch and stop them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import attrs

from cronhare.domain.access import Actor
from cronhare.domain.access.audit import Action
from cronhare.domain.lifecycle.failure_filter import FailureFilter
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import Replay
from cronhare.ports.claims import ReplayStorePort
from cronhare.ports.records import RecordsPort

from .audit_trail import AuditTrail
from .audit_values import values_of_filter
from .lookup import NotFound
from .names import Names
from .repetition import refuse_another
from .views.replays import ReplayView


@attrs.frozen(kw_only=True)
class Ordered:
    """How many *failures* a replay is about that was asked for; of none there is no *replay*."""

    failures: int
    replay: ReplayView | None = None


@attrs.define(kw_only=True, eq=False)
class Replays:
    """Orders and stops; whichever scheduler is there carries them out (`scheduling/replaying`).

    Each method may raise `LedgerUnavailable`.
    """

    _replays: ReplayStorePort
    _records: RecordsPort
    _names: Names
    _trail: AuditTrail

    def count(self, which: FailureFilter) -> int:
        """Say how many failures a replay would be about: S2.6 in docs/compatibility.md.

        Raises:
            NotFound: there is no such schedule, task or queue, and nothing is left of one.
        """
        if not (failures := self._records.count_failures(self._names.resolved(which))):
            self._names.refuse_unknown(which)
        return failures

    def order(
        self, order: ReplayOrder, *, now: datetime, actor: Actor, request: UUID | None = None
    ) -> Ordered:
        """Begin a replay of what the archive has now, unless that is nothing.

        A *request* that is asked again is answered what it began.

        Raises:
            NotFound: see `count`.
            RequestReused: it began another one.
        """
        if not (failures := self.count(order.which)):
            # Or what it began has resolved them all meanwhile.
            begun = None if request is None else self._replays.asked_by(request)
            if begun is None:
                return Ordered(failures=0)
            refuse_another(begun, order)
            return Ordered(failures=0, replay=ReplayView.of(begun, now=now))
        which = values_of_filter(order.which)
        target = order.which.schedule or "failures"
        with self._trail.change(
            actor, Action.ORDER_REPLAY, target, now=now, after={"which": which}
        ) as note:
            meant = attrs.evolve(order, which=self._names.resolved(order.which))
            begun = self._replays.order(meant, now=now, request=request)
            refuse_another(begun, order)
            note.unless(changed=begun.created_at == now)  # a repetition began it, then
            note.after = {"which": which, "replay": begun.id, "failures": failures}
        return Ordered(failures=failures, replay=ReplayView.of(begun, now=now))

    def list(self, *, limit: int, now: datetime, before: int | None = None) -> Sequence[ReplayView]:
        """List replays, the newest first; those *before* one of them, if it is given."""
        found = self._replays.replays(limit=limit, before=before)
        return [ReplayView.of(replay, now=now) for replay in found]

    def show(self, replay_id: int, *, now: datetime) -> ReplayView:
        """Show one.

        Raises:
            NotFound: there is none.
        """
        return _shown(self._replays.replay(replay_id), replay_id, now)

    def stop(self, replay_id: int, *, author: str, now: datetime, actor: Actor) -> ReplayView:
        """Let nothing of it begin any more; what has begun goes on.

        Raises:
            NotFound: there is none.
        """
        reason = f"stopped by {author}" if author else "stopped by hand"
        _shown(self._replays.replay(replay_id), replay_id, now)
        with self._trail.change(
            actor, Action.STOP_REPLAY, str(replay_id), now=now, after={"reason": reason}
        ):
            return _shown(self._replays.halt(replay_id, reason=reason, now=now), replay_id, now)

    def resume(self, replay_id: int, *, now: datetime, actor: Actor) -> ReplayView:
        """Let a stopped one go on, to its end: its rules to stop hold no more.

        Raises:
            NotFound: there is none.
        """
        _shown(self._replays.replay(replay_id), replay_id, now)
        with self._trail.change(actor, Action.RESUME_REPLAY, str(replay_id), now=now):
            return _shown(self._replays.resume(replay_id, now=now), replay_id, now)


def _shown(replay: Replay | None, replay_id: int, now: datetime) -> ReplayView:
    if replay is None:
        raise NotFound(f"there is no replay {replay_id}")
    return ReplayView.of(replay, now=now)
