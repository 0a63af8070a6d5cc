"""Runs of tasks that programs enqueue: claimed in the ledger, and published at once."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import attrs
import msgspec

from cronhare.domain.access import Actor
from cronhare.domain.audit import Action
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.claims import NotToBeRun
from cronhare.domain.lifecycle.enqueue import Wanted, enqueue, refuse_other
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import BrokenSchedule, Schedule
from cronhare.ports import LedgerRefused
from cronhare.ports.claims import Enqueued, EnqueuePort
from cronhare.ports.records import RecordsPort
from cronhare.ports.system import LaterBellPort

from ..audit import AuditTrail
from ..reading.lookup import NotFound, find_execution
from ..views.values import json_value
from .runs import CannotRun

#: Seconds for which schedules and the ledger's clock are known: so late an edit counts.
KNOWN_FOR: Final = 5.0

#: Drafts the schedule of a task, if that is known here.
Make: TypeAlias = Callable[[str], ScheduleDraft | None]

Found: TypeAlias = Schedule | BrokenSchedule | ScheduleDraft


class CannotEnqueue(CannotRun):
    """The ledger refuses a run, or its schedule cannot be run; nothing was enqueued."""


@attrs.define(kw_only=True, eq=False)
class Enqueuer:
    """Enqueues runs of the schedules by hand that tasks have. Threads may share it.

    It writes no entry of the audit: that would cost as much as the run. Who asks on behalf of a
    person, as the HTTP API does, writes one.
    """

    _store: EnqueuePort
    _bell: LaterBellPort
    _node: str
    _now: Callable[[], datetime]
    _measure: Callable[[], object]  # it asks the ledger's clock
    _known: dict[str, Schedule | BrokenSchedule] = attrs.field(init=False, factory=dict)
    _known_until: float = attrs.field(init=False, default=0.0)

    def find(self, wanted: Sequence[Wanted], make: Make) -> Mapping[str, Found]:
        """Find the schedules of runs, or draft them: all that is asked of the ledger before."""
        names, now = {each.schedule for each in wanted}, time.monotonic()
        if now > self._known_until:
            self._known, self._known_until = {}, now + KNOWN_FOR
            self._measure()
        known = self._known
        if asked := names - known.keys():
            known.update(self._store.schedules(asked))
        found = dict[str, Found]()
        for name in names:
            if (schedule := known.get(name) or make(name)) is None:
                raise NotFound(f"the ledger has no task {name}: apply the app or file it is of")
            found[name] = schedule
        return found

    def enqueue(
        self, wanted: Sequence[Wanted], make: Make, *, on: object | None = None
    ) -> Sequence[Enqueued]:
        """Claim all of the runs or none, and have them published at once.

        A key that has an execution is answered that one. Within a transaction of the caller's, that
        is *on*, they are published after its commit: at once where it tells of that, and some 3 s
        later where it does not.

        Raises:
            NotFound, OtherDatabase, CannotEnqueue: see there.
            EnqueueInvalid: a run would have expired before it begins.
            KeyTaken: a key names an execution with other params. In a transaction of the caller's
                the runs are there all the same: roll it back.
        """
        if on is not None:
            self._store.check(on)
        found, now = self.find(wanted, make), self._now()
        schedules = {
            name: self._made(each, now, on) if isinstance(each, ScheduleDraft) else each
            for name, each in found.items()
        }
        head_start, by_key = self._bell.head_start, dict[tuple[int, str], Execution]()
        try:
            runs = [
                enqueue(
                    schedules[each.schedule], each, now=now, node=self._node, head_start=head_start
                )
                for each in wanted
            ]
            for run in runs:
                same = by_key.setdefault((run.scheduler_id, run.key), run)
                if same is not run:
                    refuse_other(run, execution=None, params=same.params)
            answers = self._store.enqueue(list(by_key.values()), on=on)
        except (NotToBeRun, LedgerRefused) as error:
            raise CannotEnqueue(str(error)) from error
        by_answer = dict(zip(by_key, answers, strict=True))
        new = {answer.id: by_key[key] for key, answer in by_answer.items() if answer.new}
        if new and on is not None:
            self._store.after_commit(on, lambda: self._bell.ring_once_there(new.keys()))
        elif new:
            sent = [msgspec.structs.replace(run, id=id_) for id_, run in new.items()]
            self._bell.ring(sent, now=now)
        return [by_answer[run.scheduler_id, run.key] for run in runs]

    def _made(self, draft: ScheduleDraft, now: datetime, on: object | None) -> Schedule:
        source, _, _ = draft.name.partition(":")
        made = self._store.make(draft, source=source, now=now, on=on)
        if on is None:  # else their rollback would take it away
            self._known[draft.name] = made
        return made


@attrs.frozen(kw_only=True)
class TaskDesk:
    """Enqueues runs for people and other programs, with an entry of the audit for each."""

    _enqueuer: Enqueuer
    _records: RecordsPort
    _trail: AuditTrail

    def run(self, wanted: Wanted, *, actor: Actor) -> Execution:
        """Enqueue a run of a task that the ledger has; raises as `Enqueuer.enqueue`."""
        nobody = dict[str, ScheduleDraft]().get
        self._enqueuer.find([wanted], nobody)
        asked = {"key": wanted.key, "params": json_value(wanted.params)}
        with self._trail.change(actor, Action.RUN, wanted.schedule, after=asked) as note:
            [answer] = self._enqueuer.enqueue([wanted], nobody)
            note.after = {"execution": answer.id, **asked}
            note.unless(changed=answer.new)
        return find_execution(self._records, answer.id)
