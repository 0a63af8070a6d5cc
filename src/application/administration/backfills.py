"""Backfills, as people look at them before they order them; `replays` shows and stops them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import attrs
import msgspec

from cronhare.domain.access import Actor
from cronhare.domain.access.audit import Action
from cronhare.domain.lifecycle.backfill import (
    MOST_INSTANTS,
    NOT_BESIDE,
    BackfillOrder,
    instants,
    left_out_by,
)
from cronhare.domain.lifecycle.replay_order import ReplayOrderInvalid
from cronhare.domain.progress import OnProgress, unwatched
from cronhare.domain.schedules.calendars import FoundCalendar
from cronhare.domain.schedules.circumstances import Circumstances
from cronhare.domain.schedules.schedule import Schedule
from cronhare.domain.texts.moments import say_moment
from cronhare.ports.claims import ReplayStorePort
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from .audit_trail import AuditTrail
from .lookup import find_calendars, find_schedule, understood
from .repetition import refuse_another
from .views.replays import ReplayView

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
class Backfills:
    """Each method may raise `LedgerUnavailable`."""

    _replays: ReplayStorePort
    _schedules: ScheduleStorePort
    _trail: AuditTrail

    def look(
        self,
        name: str,
        *,
        since: datetime,
        until: datetime,
        now: datetime,
        on_progress: OnProgress = unwatched,
        **rules: Any,  # noqa: ANN401 - of `Pacing`
    ) -> tuple[BackfillOrder, BackfillPreview]:
        """Say what a backfill would be, and make its order.

        Calendars and blackout windows are looked at again as it goes on. *on_progress* hears of the
        instants as they are looked up.

        Raises:
            NotFound: there is no such schedule.
            ReplayOrderInvalid: with all faults at once.
        """
        stored = find_schedule(self._schedules, name)
        faults = [*_faults_of_time(until, now), *_faults_of_schedule(stored)]
        asked = {"schedule": stored.name, "scheduler_id": stored.id, "since": since, **rules}
        try:
            order = BackfillOrder(until=until, **asked)
        except ReplayOrderInvalid as error:
            raise ReplayOrderInvalid([*faults, *error.faults]) from error
        if faults:
            raise ReplayOrderInvalid(faults)
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

    def order(
        self, order: BackfillOrder, *, now: datetime, actor: Actor, request: UUID | None = None
    ) -> ReplayView:
        """Begin a backfill; whichever scheduler is there carries it out.

        A *request* that is asked again is answered what it began.

        Raises:
            RequestReused: it began another one.
        """
        span = {"since": order.since.isoformat(), "until": order.until.isoformat()}
        with self._trail.change(
            actor, Action.BACKFILL, order.schedule, now=now, after=span
        ) as note:
            begun = self._replays.order(order, now=now, request=request)
            refuse_another(begun, order)
            note.unless(changed=begun.created_at == now)  # a repetition began it, then
            note.after = {"replay": begun.id, **span}
        return ReplayView.of(begun, now=now)


def _faults_of_time(until: datetime, now: datetime) -> Iterator[tuple[str, str]]:
    if until > now:
        yield "until", f"{say_moment(until)} is to come: it is {say_moment(now)}"


def _faults_of_schedule(stored: StoredSchedule) -> Iterator[tuple[str, str]]:
    if stored.draft is None:
        yield "schedule", f"its row is broken: {stored.problem}"
    elif stored.draft.stay_alive:
        yield "schedule", NOT_BESIDE
    elif not stored.draft.has_times:
        yield "schedule", "it has no times of its own: `cronhare run` runs it"


def _due(
    schedule: Schedule, order: BackfillOrder, calendars: Mapping[str, FoundCalendar]
) -> list[tuple[datetime, str | None]]:
    """Give the instants, each with why it is left out, if it is."""
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
        raise ReplayOrderInvalid([("until", fault)])
    if not due:
        raise ReplayOrderInvalid([("since", "nothing was due between these times")])
    return due
