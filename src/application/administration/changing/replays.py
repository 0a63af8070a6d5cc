"""Replays and backfills, as people order, watch and stop them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import attrs
import msgspec

from cronhare.domain.access import Actor
from cronhare.domain.audit import Action
from cronhare.domain.lifecycle.archive import FailureFilter
from cronhare.domain.lifecycle.claims import MOST_INSTANTS, NOT_BESIDE, instants, left_out_by
from cronhare.domain.lifecycle.orders import (
    BackfillOrder,
    Order,
    Replay,
    ReplayOrder,
)
from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.reading import Fault, Invalid
from cronhare.domain.schedules.conditions import FoundCalendar
from cronhare.domain.schedules.schedule import Schedule
from cronhare.domain.schedules.skips import Circumstances
from cronhare.domain.texts.moments import say_moment
from cronhare.ports.claims import ReplayStorePort
from cronhare.ports.records import RecordsPort
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from ..audit import AuditTrail, values_of_filter
from ..reading.lookup import Names, NotFound, find_calendars, find_schedule, understood
from ..views.failures import ReplayView


class RequestReused(ValueError):
    """What names a request named another one before; nothing was changed."""


def _refuse_another(begun: Replay, order: Order) -> None:
    """Refuse a replay that was begun by another order; when it stops a resume may have changed."""
    if _as_resumed(begun.order) != _as_resumed(order):
        kind = "backfill" if isinstance(begun.order, BackfillOrder) else "replay"
        raise RequestReused(f"it began {kind} {begun.id}, which is another one")


def _as_resumed(order: Order) -> Order:
    return attrs.evolve(order, canary=0, stop_at=None)


@attrs.frozen(kw_only=True)
class Ordered:
    """How many *failures* a replay is about that was asked for; of none there is no *replay*."""

    failures: int
    replay: ReplayView | None = None


#: Instants are looked up in parts of so many.
_PART = 10_000


@attrs.frozen(kw_only=True)
class BackfillPreview:
    """What a backfill would be: so many *instants* by the schedule's times.

    As things are now so many would be *left out*, and by what. Of the others *ran* have a run.
    """

    schedule: str
    since: datetime
    until: datetime
    instants: int
    left_out: int
    left_out_by: Sequence[str]
    ran: int


@attrs.define(kw_only=True, eq=False)
class Replays:
    """Orders and stops; whichever scheduler is there carries them out (`scheduling/chores`)."""

    _replays: ReplayStorePort
    _records: RecordsPort
    _schedules: ScheduleStorePort
    _names: Names
    _trail: AuditTrail

    def count(self, which: FailureFilter) -> int:
        """Say how many failures a replay would be about: S2.6 in docs/compatibility.md."""
        if not (failures := self._records.count_failures(self._names.resolved(which))):
            self._names.refuse_unknown(which)
        return failures

    def order(self, order: ReplayOrder, *, actor: Actor, request: UUID | None = None) -> Ordered:
        """Begin a replay of what the archive has now, unless that is nothing.

        A *request* that is asked again is answered what it began.
        """
        if not (failures := self.count(order.which)):
            # Or what it began has resolved them all meanwhile.
            begun = None if request is None else self._replays.asked_by(request)
            if begun is None:
                return Ordered(failures=0)
            _refuse_another(begun, order)
            return Ordered(failures=0, replay=ReplayView.of(begun, now=self._trail.now()))
        which = values_of_filter(order.which)
        target = order.which.schedule or "failures"
        with self._trail.change(actor, Action.ORDER_REPLAY, target, after={"which": which}) as note:
            meant = attrs.evolve(order, which=self._names.resolved(order.which))
            begun = self._replays.order(meant, now=note.at, request=request)
            _refuse_another(begun, order)
            note.unless(changed=begun.created_at == note.at)  # a repetition began it, then
            note.after = {"which": which, "replay": begun.id, "failures": failures}
        return Ordered(failures=failures, replay=ReplayView.of(begun, now=note.at))

    def list(self, *, limit: int, before: int | None = None) -> Sequence[ReplayView]:
        """List replays, the newest first; those *before* one of them, if it is given."""
        found = self._replays.replays(limit=limit, before=before)
        now = self._trail.now()
        return [ReplayView.of(replay, now=now) for replay in found]

    def show(self, replay_id: int) -> ReplayView:
        return _shown(self._replays.replay(replay_id), replay_id, self._trail.now())

    def stop(self, replay_id: int, *, author: str, actor: Actor) -> ReplayView:
        """Let nothing of it begin any more; what has begun goes on."""
        reason = f"stopped by {author}" if author else "stopped by hand"
        self.show(replay_id)
        with self._trail.change(
            actor, Action.STOP_REPLAY, str(replay_id), after={"reason": reason}
        ) as note:
            return _shown(
                self._replays.halt(replay_id, reason=reason, now=note.at), replay_id, note.at
            )

    def resume(self, replay_id: int, *, actor: Actor) -> ReplayView:
        """Let a stopped one go on, to its end: its rules to stop hold no more."""
        self.show(replay_id)
        with self._trail.change(actor, Action.RESUME_REPLAY, str(replay_id)) as note:
            return _shown(self._replays.resume(replay_id, now=note.at), replay_id, note.at)

    def look_at_backfill(
        self,
        name: str,
        *,
        since: datetime,
        until: datetime,
        on_progress: OnProgress = unwatched,
        **rules: Any,  # noqa: ANN401 - of `Pacing`
    ) -> tuple[BackfillOrder, BackfillPreview]:
        """Say what a backfill would be, and make its order.

        Calendars and blackout windows are looked at again as it goes on. *on_progress* hears of the
        instants as they are looked up.

        Raises:
            Invalid: with all faults at once.
        """
        stored = find_schedule(self._schedules, name)
        faults = [*_faults_of_time(until, self._trail.now()), *_faults_of_schedule(stored)]
        asked = {"schedule": stored.name, "scheduler_id": stored.id, "since": since, **rules}
        try:
            order = BackfillOrder(until=until, **asked)
        except Invalid as error:
            raise Invalid([*faults, *error.faults]) from error
        if faults:
            raise Invalid(faults)
        schedule = understood(stored)
        assert schedule is not None, "or it would have a fault"
        due = _due(schedule, order, find_calendars(self._schedules, stored))
        reasons = [why for _, why in due if why is not None]
        wanted = [instant for instant, why in due if why is None]
        ran = 0
        for at in range(0, len(wanted), _PART):
            on_progress(at, len(wanted))
            ran += len(self._replays.have_run(stored.id, wanted[at : at + _PART]))
        on_progress(len(wanted), len(wanted))
        preview = BackfillPreview(
            schedule=stored.name,
            since=since,
            until=until,
            instants=len(due),
            left_out=len(reasons),
            left_out_by=left_out_by(reasons),
            ran=ran,
        )
        return order, preview

    def backfill(
        self, order: BackfillOrder, *, actor: Actor, request: UUID | None = None
    ) -> ReplayView:
        """Begin a backfill; whichever scheduler is there carries it out.

        A *request* that is asked again is answered what it began.

        Raises:
            RequestReused: it began another one.
        """
        span = {"since": order.since.isoformat(), "until": order.until.isoformat()}
        with self._trail.change(actor, Action.BACKFILL, order.schedule, after=span) as note:
            begun = self._replays.order(order, now=note.at, request=request)
            _refuse_another(begun, order)
            note.unless(changed=begun.created_at == note.at)  # a repetition began it, then
            note.after = {"replay": begun.id, **span}
        return ReplayView.of(begun, now=note.at)


def _shown(replay: Replay | None, replay_id: int, now: datetime) -> ReplayView:
    if replay is None:
        raise NotFound(f"there is no replay {replay_id}")
    return ReplayView.of(replay, now=now)


def _faults_of_time(until: datetime, now: datetime) -> Iterator[Fault]:
    if until > now:
        yield Fault("until", f"{say_moment(until)} is to come: it is {say_moment(now)}")


def _faults_of_schedule(stored: StoredSchedule) -> Iterator[Fault]:
    if stored.draft is None:
        yield Fault("schedule", f"its row is broken: {stored.problem}")
    elif stored.draft.stay_alive:
        yield Fault("schedule", NOT_BESIDE)
    elif not stored.draft.has_times:
        yield Fault("schedule", "it has no times of its own: `cronhare run` runs it")


def _due(
    schedule: Schedule, order: BackfillOrder, calendars: Mapping[str, FoundCalendar]
) -> list[tuple[datetime, str | None]]:
    first, last = order.span
    circumstances = Circumstances(calendars=calendars)
    if circumstances.problem_with(schedule):  # with which no instant runs
        schedule = msgspec.structs.replace(schedule, conditions=None)
    found = instants(schedule, circumstances, first=first, last=last)
    due = [*islice(found, MOST_INSTANTS + 1)]
    if len(due) > MOST_INSTANTS:
        until = say_moment(due[-1][0])
        fault = (
            f"more than {MOST_INSTANTS:,} instants are due; those before {until} are as many as "
            "one backfill may have"
        )
        raise Invalid([Fault("until", fault)])
    if not due:
        raise Invalid([Fault("since", "nothing was due between these times")])
    return due
