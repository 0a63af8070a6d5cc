"""Changes that people ask for: run now, cancel, replay, discard, pause."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import attrs

from cronhare.domain.access import Actor
from cronhare.domain.audit import Action
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle.archive import Archived, FailureFilter
from cronhare.domain.lifecycle.claims import Allowance, NotToBeRun, why_not_replayed
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.draft import hindrance
from cronhare.domain.schedules.keys import Boot, manual_key, start_key
from cronhare.domain.schedules.skips import LONGEST_AUTHOR, LONGEST_REASON, Pause
from cronhare.domain.schedules.task import fault_of_params, same_params
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.words import plural
from cronhare.ports import LedgerRefused
from cronhare.ports.records import RecordsPort
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule
from cronhare.ports.system import BellPort

from .. import Refused
from ..audit import AuditTrail, plain, values_of_filter
from ..reading.lookup import Names, NotFound, find_execution, find_schedule, find_schedules
from ..views.failures import DiscardedView, ReplayedView
from ..views.values import json_value
from .replays import RequestReused

#: What the audit calls failures that are changed together.
_SEVERAL: Final = "failures"

#: So many failures are discarded in one transaction.
MOST_AT_ONCE: Final = 1_000


class CannotRun(Refused):
    """A run by hand, at a start or at a boot is refused, by us or by the ledger."""


class NotOfThisBoot(CannotRun):
    """A schedule has no run of a boot, in good order."""


class CannotPause(Refused):
    """A pause is refused; nothing was changed."""


@attrs.frozen(kw_only=True)
class Switched:
    """A schedule that was asked to be *on* or off; *changed* says whether it was not so before.

    *source* is the jobs file whose next `apply` has the last word; *problem* is a broken row's.
    """

    name: str
    on: bool
    changed: bool
    source: str | None
    problem: str | None


@attrs.frozen(kw_only=True)
class Administrator:
    """Changes the ledger on people's behalf; schedulers and workers notice by themselves.

    *uuid* gives the names of manual runs, *policy* holds for schedules without one, and *bell* is
    rung for what a person asks for.
    """

    _schedules: ScheduleStorePort
    _records: RecordsPort
    _names: Names
    _node: str
    _uuid: Callable[[], UUID]
    _policy: RetryPolicy
    _bell: BellPort
    _trail: AuditTrail

    def run_now(
        self,
        name: str,
        *,
        params: str | None,
        actor: Actor,
        request: UUID | None = None,
    ) -> Execution:
        """Begin a manual run; the schedule's next due instant does not move.

        A *request* that is asked again is answered the run that it began.
        """
        schedule = find_schedule(self._schedules, name)
        if params is not None and (fault := fault_of_params(params)) is not None:
            raise CannotRun(f"schedule {name!r} cannot be run with these params: {fault}")
        key, head_start = manual_key(request or self._uuid()), self._bell.head_start
        asked = {} if params is None else {"params": json_value(params)}
        with self._trail.change(actor, Action.RUN, schedule.name, after=asked) as note:
            began = self._begin(
                schedule, key=key, params=params, now=note.at, head_start=head_start
            )
            if params is not None and not same_params(began.params, params):
                raise RequestReused(f"it began execution {began.id}, with other params")
            note.after = {"execution": began.id, **asked}
            note.unless(changed=began.executed_at == note.at)  # a repetition began it, then
        self._bell.ring([began], now=note.at)
        return began

    def run_at_start(self, name: str, *, now: datetime) -> Execution:
        """Begin the run of a schedule at a start of `cronhare up`; raises as `run_at_boot`."""
        schedule = self._may_begin_by_itself(name, now)
        return self._begin(schedule, key=start_key(self._uuid()), params=None, now=now)

    def run_at_boot(self, name: str, boot: Boot, *, now: datetime) -> Execution:
        """Begin the run of a schedule at a boot; answers the same run if it was begun before.

        Raises:
            NotOfThisBoot: the boot does not concern it, or no more.
            CannotRun: it is off or paused, its row is broken, or the ledger refuses it.
        """
        schedule = self._may_begin_by_itself(name, now)
        if (why := boot.why_not(schedule.updated_at, now=now)) is not None:
            raise NotOfThisBoot(f"schedule {name!r} has no run of this boot: {why}")
        return self._begin(schedule, key=boot.key, params=None, now=now)

    def _may_begin_by_itself(self, name: str, now: datetime) -> StoredSchedule:
        schedule = find_schedule(self._schedules, name)
        why = schedule.draft and hindrance(schedule.draft, schedule.pause, now=now)
        if why is not None:
            raise CannotRun(f"schedule {name!r} does not run by itself: it is {why}")
        return schedule

    def _begin(
        self,
        schedule: StoredSchedule,
        *,
        key: str,
        params: str | None,
        now: datetime,
        head_start: timedelta = timedelta(0),
    ) -> Execution:
        cannot = f"schedule {schedule.name!r} cannot be run"
        if schedule.draft is None:
            raise CannotRun(f"{cannot}, its row is broken: {schedule.problem}")
        try:
            return self._records.run_now(
                schedule.id,
                key=key,
                params=params,
                now=now,
                node=self._node,
                head_start=head_start,
            )
        except (NotToBeRun, LedgerRefused) as error:
            raise CannotRun(f"{cannot}: {error}") from error

    def switch(self, names: Sequence[str], *, on: bool, actor: Actor) -> Sequence[Switched]:
        """Enable or disable schedules, all or none; what runs goes on."""
        found = find_schedules(self._schedules, names)
        action = Action.ENABLE if on else Action.DISABLE
        asked = {
            each.name: ({"status": each.draft.status} if each.draft else None, {"status": on})
            for each in found
        }
        with self._trail.changes(actor, action, asked) as notes:
            changed = self._schedules.switch(list(asked), on=on, now=self._trail.now())
            for name, note in notes.items():
                note.unless(changed=name in changed)
        return [
            Switched(
                name=each.name,
                on=on,
                changed=each.name in changed,
                source=each.source,
                problem=each.problem if each.draft is None else None,
            )
            for each in found
        ]

    def pause(
        self,
        until: Mapping[str, datetime | None],
        *,
        reason: str | None,
        by: str | None,
        actor: Actor,
    ) -> Mapping[str, Pause]:
        """Let the due instants of schedules be skipped from now on, *until* then or a resume.

        What was claimed before goes on; manual runs begin as ever. It is no edit.
        """
        faults = (
            *_too_long("reason", reason, LONGEST_REASON),
            *_too_long("by", by, LONGEST_AUTHOR),
        )
        now = self._trail.now()
        over = sorted({end for end in until.values() if end is not None and end <= now})
        faults += tuple(f"until {say_moment(end)} is over: it is {say_moment(now)}" for end in over)
        if faults:
            named = ", ".join(map(repr, until))
            which = f"{plural(len(until), 'schedule')} {named}"
            raise CannotPause(f"{which} cannot be paused: {'; '.join(faults)}")
        kept = {}
        for schedule in find_schedules(self._schedules, list(until)):
            asked = Pause(since=now, until=until[schedule.name], by=by, reason=reason)
            was = plain(schedule.pause)
            with self._trail.change(
                actor, Action.PAUSE, schedule.name, before=was, after=plain(asked)
            ):
                kept[schedule.name] = self._schedules.pause(schedule.name, asked, now=now) or asked
        return kept

    def resume(
        self, names: Sequence[str], *, actor: Actor
    ) -> Mapping[str, tuple[Pause | None, bool]]:
        """End the pauses of schedules; answers by name the pause and whether it was on.

        What was due meanwhile is not run: `backfill` does that, on request.
        """
        resumed = {}
        for schedule in find_schedules(self._schedules, names):
            was = plain(schedule.pause)
            with self._trail.change(actor, Action.RESUME, schedule.name, before=was) as note:
                was_on = schedule.pause is not None and schedule.pause.is_on(note.at)
                ended = self._schedules.resume(schedule.name, now=note.at)
                note.after = plain(ended)
                note.unless(changed=was_on)
            resumed[schedule.name] = ended, was_on
        return resumed

    def cancel(self, execution_id: int, *, actor: Actor) -> State:
        """Ask for the end of an execution; answers the state that it is in now."""
        execution = find_execution(self._records, execution_id)
        was = {"schedule": execution.schedule_name, "state": execution.state.value}
        with self._trail.change(actor, Action.CANCEL, str(execution_id), before=was) as note:
            state = self._records.cancel(execution_id, now=note.at)
            if state is None:
                raise NotFound(f"there is no execution {execution_id}")
            note.after = {"state": state.value}
            note.unless(changed=execution.state in UNFINISHED)
        return state

    def archived(self, ids: Collection[int]) -> Sequence[Archived]:
        found = self._records.archived(ids)
        missing = sorted(set(ids) - {archived.id for archived in found})
        if missing:
            raise NotFound(f"the archive has no row {', '.join(map(str, missing))}")
        return found

    def replay(
        self, ids: Collection[int], *, actor: Actor, attempts: int | None = None
    ) -> ReplayedView:
        """Send failed executions again at once, with *attempts* in all, or as many as before.

        Many are for `Replays`.
        """
        chosen = set(ids)
        rows = self.archived(chosen)
        allowance = Allowance(attempts=attempts, policy=self._policy)
        held = all(row.state is State.QUARANTINED for row in rows)
        action = Action.RELEASE if held else Action.REPLAY
        with self._trail.change(actor, action, _named(rows), before=_told(rows)) as note:
            again = self._records.replay(
                chosen, now=note.at, allowance=allowance, head_start=self._bell.head_start
            )
            note.after = {"executions": [execution.id for execution in again]}
            note.unless(changed=bool(again))
        self._bell.ring(again, now=note.at)
        left = [row for row in self.archived(chosen) if row.resolution is None]
        return ReplayedView(
            executions=tuple(execution.id for execution in again),
            messages=tuple(execution.message_id for execution in again),
            asked=len(chosen),
            resolved_before=len(chosen) - len(again) - len(left),
            refused={row.id: self._why_not_replayed(row) for row in left},
        )

    def quarantined(self, ids: Collection[int]) -> Sequence[int]:
        """Raise `NotFound` for rows of the archive that stand for nothing quarantined."""
        failed = [row.id for row in self.archived(set(ids)) if row.state is State.FAILED]
        if failed:
            numbers = ", ".join(map(str, failed))
            raise NotFound(f"{numbers}: failed, and not quarantined; see `cronhare failed replay`")
        return list(ids)

    def discard_all(self, which: FailureFilter, *, note: str, actor: Actor) -> DiscardedView:
        """Resolve without a run what a filter takes of the archive as it is now."""
        target, chosen = which.schedule or _SEVERAL, values_of_filter(which)
        which = self._names.resolved(which)
        if not self._records.archive(which, limit=1):
            self._names.refuse_unknown(which)
            return _discarded(0, asked=0)
        count, asked, last = 0, 0, None
        with self._trail.change(
            actor, Action.DISCARD, target, before=chosen, after={"note": note}
        ) as kept:
            while page := self._records.archive(which, before=last, limit=MOST_AT_ONCE):
                last, asked = page[-1].id, asked + len(page)
                count += self._records.discard([row.id for row in page], note=note, now=kept.at)
            kept.after = {"note": note, "discarded": count}
            kept.unless(changed=count > 0)
        return _discarded(count, asked=asked)

    def discard(self, ids: Collection[int], *, note: str, actor: Actor) -> DiscardedView:
        chosen = set(ids)
        rows = self.archived(chosen)
        with self._trail.change(
            actor,
            Action.DISCARD,
            _named(rows),
            before=_told(rows),
            after={"note": note},
        ) as kept:
            count = self._records.discard(chosen, note=note, now=kept.at)
            kept.unless(changed=count > 0)
        return _discarded(count, asked=len(chosen))

    def _why_not_replayed(self, archived: Archived) -> str:
        if id_ := archived.execution_id:
            execution = self._records.execution(id_)
            if execution is None:
                return f"execution {id_} is no more in the ledger"
            # It can be replayed where it has ended only now.
            why = why_not_replayed(execution) or "it was under way; try again"
            return f"execution {id_}: {why}"
        return (
            f"the ledger has no schedule {archived.scheduler_id}. Publish its task anew where it "
            f"came from, then: cronhare failed discard {archived.id}"
        )


def _discarded(failures: int, *, asked: int) -> DiscardedView:
    return DiscardedView(failures=failures, asked=asked, resolved_before=asked - failures)


def _named(rows: Sequence[Archived]) -> str:
    return str(rows[0].id) if len(rows) == 1 else _SEVERAL


def _told(rows: Sequence[Archived]) -> dict[str, object]:
    schedules = dict.fromkeys(row.schedule_name for row in rows)
    return {"failures": sorted(row.id for row in rows), "schedules": list(schedules)}


def _too_long(what: str, text: str | None, most: int) -> tuple[str, ...]:
    if text is None or (len(text) <= most and "\0" not in text):
        return ()
    if "\0" in text:
        return (f"--{what} has a NUL",)
    return (f"--{what} has {len(text):,} letters, {most:,} are allowed",)
