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
from cronhare.domain.lifecycle.enqueue import COLON, Wanted, enqueue, refuse_other
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import BrokenSchedule, Schedule
from cronhare.domain.texts.words import listed
from cronhare.ports import LedgerRefused
from cronhare.ports.claims import Enqueued, EnqueuePort
from cronhare.ports.records import RecordsPort
from cronhare.ports.system import LaterBellPort

from ..audit import AuditTrail
from ..reading.lookup import NotFound, find_execution
from ..views.values import json_value
from .runs import CannotRun

#: Seconds for which a schedule is known as it was read: so late an edit of it counts.
KNOWN_FOR: Final = 5.0

#: And so often the ledger's clock is asked anew, as a worker does.
MEASURED_EVERY: Final = 30.0

#: What each run is of: a schedule, or a draft of one that is made with the first run.
Found: TypeAlias = Mapping[str, Schedule | BrokenSchedule | ScheduleDraft]


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
    _measured_at: float = attrs.field(init=False, default=0.0)
    _known: dict[str, tuple[float, Schedule | BrokenSchedule]] = attrs.field(
        init=False, factory=dict[str, tuple[float, Schedule | BrokenSchedule]]
    )

    def find(
        self,
        wanted: Sequence[Wanted],
        make: Callable[[str], ScheduleDraft | None],
        *,
        on: object | None = None,
    ) -> Found:
        """Find the schedules of runs: all that has to be asked of the ledger before.

        *make* drafts a schedule that is missing; None if nobody knows that task. *on* is as in
        `EnqueuePort`, and looked at here already.

        Raises:
            NotFound: a task is not in the ledger, and nobody knows it.
            OtherDatabase: *on* is not the ledger's database.
        """
        if on is not None:
            self._store.check(on)
        names = {each.schedule for each in wanted}
        since = time.monotonic() - KNOWN_FOR
        known = dict(self._known)
        found: dict[str, Schedule | BrokenSchedule | ScheduleDraft] = {
            name: known[name][1] for name in names if name in known and known[name][0] > since
        }
        if asked := names - found.keys():
            if time.monotonic() - self._measured_at > MEASURED_EVERY:
                self._measured_at = time.monotonic()
                self._measure()
            read = self._store.schedules(asked)
            found.update(read)
            self._known.update((name, (time.monotonic(), each)) for name, each in read.items())
            for name in asked - read.keys():
                if (draft := make(name)) is None:
                    raise NotFound(f"the ledger has no task {name}: apply the app or file it is of")
                found[name] = draft
        return found

    def enqueue(
        self, wanted: Sequence[Wanted], found: Found, *, on: object | None = None
    ) -> Sequence[Enqueued]:
        """Claim all of the runs or none, and have them published at once.

        A key that has an execution is answered that one. Within a transaction of the caller's, that
        is *on*, they are published after its commit: at once where it tells of that, and some 3 s
        later where it does not.

        Raises:
            EnqueueInvalid: a run would have expired before it begins.
            KeyTaken: a key names an execution with other params. In a transaction of the caller's
                the runs are there all the same: roll it back.
            CannotEnqueue: see there.
        """
        now, by_key = self._now(), dict[tuple[int, str], Execution]()
        schedules = {
            name: self._made(each, now, on) if isinstance(each, ScheduleDraft) else each
            for name, each in found.items()
        }
        try:
            runs = [self._claim(each, schedules[each.schedule], now) for each in wanted]
        except NotToBeRun as error:
            raise CannotEnqueue(str(error)) from error
        for run in runs:
            same = by_key.setdefault((run.scheduler_id, run.key), run)
            refuse_other(run, execution=None, params=same.params)
        distinct = list(by_key.values())
        try:
            answers = self._store.enqueue(distinct, on=on)
        except LedgerRefused as error:
            raise CannotEnqueue(str(error)) from error
        self._ring(
            [
                msgspec.structs.replace(run, id=answer.id)
                for run, answer in zip(distinct, answers, strict=True)
                if answer.new
            ],
            now,
            on,
        )
        by_answer = dict(zip(by_key, answers, strict=True))
        return [by_answer[run.scheduler_id, run.key] for run in runs]

    def _made(self, draft: ScheduleDraft, now: datetime, on: object | None) -> Schedule:
        source, _, _ = draft.name.partition(COLON)
        made = self._store.make(draft, source=source, now=now, on=on)
        if on is None:  # else their rollback would take it away
            self._known[draft.name] = time.monotonic(), made
        return made

    def _claim(
        self, wanted: Wanted, schedule: Schedule | BrokenSchedule, now: datetime
    ) -> Execution:
        return enqueue(schedule, wanted, now=now, node=self._node, head_start=self._bell.head_start)

    def _ring(self, runs: Sequence[Execution], now: datetime, on: object | None) -> None:
        if not runs:
            return
        if on is None:
            self._bell.ring(runs, now=now)
        else:
            ids = [run.id for run in runs]
            self._store.after_commit(on, lambda: self._bell.ring_once_there(ids))


@attrs.frozen(kw_only=True)
class TaskDesk:
    """Enqueues runs for people and other programs, with an entry of the audit for each."""

    _enqueuer: Enqueuer
    _store: EnqueuePort
    _records: RecordsPort
    _trail: AuditTrail
    _now: Callable[[], datetime]

    def run(self, task: str, wanted: Callable[[str], Wanted], *, actor: Actor) -> Execution:
        """Enqueue what is *wanted* of the schedule of a task, `SOURCE:TASK` or its name alone.

        Raises:
            NotFound: no task is enqueued under that name, or several are.
            EnqueueInvalid, KeyTaken, CannotEnqueue: see `Enqueuer.enqueue`.
        """
        one = wanted(self._schedule_of(task))
        found = self._enqueuer.find([one], lambda _: None)
        asked = {"key": one.key, "params": json_value(one.params)}
        with self._trail.change(
            actor, Action.RUN, one.schedule, now=self._now(), after=asked
        ) as note:
            [answer] = self._enqueuer.enqueue([one], found)
            note.after = {"execution": answer.id, **asked}
            note.unless(changed=answer.new)
        return find_execution(self._records, answer.id)

    def _schedule_of(self, task: str) -> str:
        if COLON in task:
            return task
        match self._store.named(task):
            case [schedule]:
                return schedule
            case []:
                raise NotFound(f"no task is enqueued under the name {task}")
            case several:
                raise NotFound(f"{task} is the name of several tasks: {listed(sorted(several))}")
