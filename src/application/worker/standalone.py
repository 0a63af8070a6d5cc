"""Keeping schedules with `stay_alive` running (C40 in docs/compatibility.md)."""

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.execution import UNFINISHED, Execution
from cronhare.domain.lifecycle.claims import NotToBeRun, RunsAlready
from cronhare.domain.nodes import was_ahead
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.draft import Disabled, hindrance
from cronhare.domain.schedules.keys import (
    RUNS_LOOKED_AT,
    alive_key,
    began_to_stay_alive,
    is_standalone,
    restart_wait,
    standalone_queue,
)
from cronhare.domain.schedules.planning import FULL_COMPARISON, LATE_COMMITS
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.words import listed
from cronhare.domain.topology import MOST_QUEUES
from cronhare.ports import LedgerRefused, LedgerUnavailable
from cronhare.ports.records import ExecutionFilter, RecordsPort
from cronhare.ports.schedules import ScheduleStorePort, StoredSchedule

from ..logs import place_of, say

log = logging.getLogger(__name__)


@attrs.frozen
class Off:
    """Why it does not run here: until somebody edits its row, or because *is_anothers* to run."""

    why: str
    until_edited: bool = True
    is_anothers: bool = False


def why_off(stored: StoredSchedule | None, *, is_ours: bool, now: datetime) -> Off | None:
    if stored is None:
        return Off("there is no such schedule")
    draft = stored.draft
    if draft is None:
        return Off(f"its row is broken: {stored.problem}", until_edited=False)
    if not draft.stay_alive:
        return Off("its row has no stay_alive")
    found = hindrance(draft, stored.pause, now=now)
    if found is not None:
        return Off(f"it is {found}", until_edited=isinstance(found, Disabled))
    return None if is_ours else Off("its task is not of this jobs file", is_anothers=True)


#: Seconds between two looks at the rows.
LOOK_EVERY: Final = 1.0


@attrs.define(kw_only=True, eq=False)
class StandaloneKeeper:
    """Stops what its row switches off, and begins again what ended.

    It stops only what was begun to stay alive, also where the row is an ordinary one now. A
    schedule with times is begun by these alone. Any number may keep one schedule: the ledger begins
    none beside another, and the key of the next run is made of the last one.
    """

    _schedules: ScheduleStorePort
    _records: RecordsPort
    names: Sequence[str]
    _node: str
    _now: Callable[[], datetime]
    _troubles: dict[str, str] = attrs.field(init=False, factory=dict[str, str])
    _seen: dict[str, Collection[int]] = attrs.field(init=False, factory=dict[str, Collection[int]])

    def round(self) -> float:
        """Look at all of them once; answers how many seconds to rest.

        One that cannot be kept, as somebody has its rows locked, keeps no other down.
        """
        found = {stored.name: stored for stored in self._schedules.schedules(self.names)}
        now = self._now()
        unavailable: LedgerUnavailable | None = None
        for name in tuple(self.names):  # some are let go
            try:
                self._keep(name, found.get(name), now)
            except LedgerUnavailable as error:
                unavailable = unavailable or error
        if unavailable is not None:
            raise unavailable
        return LOOK_EVERY

    def _keep(self, name: str, stored: StoredSchedule | None, now: datetime) -> None:
        is_ours = stored is None or self.is_ours(stored)
        off = why_off(stored, is_ours=is_ours, now=now)
        which = ExecutionFilter(
            schedule=name,
            states=UNFINISHED,
            stays_alive=off is not None,  # of others there may be any number
            limit=RUNS_LOOKED_AT,
        )
        unfinished = self._records.executions(which)
        is_news = self._is_news(f"off {name}", None if off is None else off.why)
        # Of what is another's, nothing was begun here but what was seen before it was.
        begun = () if off is not None and off.is_anothers else unfinished
        alive = self._alive(name, begun)
        if off is not None:
            if is_news:
                say(log, logging.WARNING, "standalone.off", f"{name} does not run here: {off.why}")
            self._stop(name, off.why, alive, now)
            if off.until_edited and not alive:
                self._seen.pop(name, None)
                self.let_go(name)
        elif astray := [
            run for run in alive if is_standalone(run.queue) and run.queue != standalone_queue(name)
        ]:  # its schedule had another name: nobody serves that queue any more
            self._stop(name, f"its queue is not {standalone_queue(name)}", astray, now)
        elif stored and stored.draft and not (unfinished or stored.draft.has_times):
            self._begin(stored, now)

    def _alive(self, name: str, unfinished: Sequence[Execution]) -> Sequence[Execution]:
        alive = [run for run in unfinished if began_to_stay_alive(key=run.key, queue=run.queue)]
        for id_ in {*self._seen.get(name, ())}.difference(run.id for run in alive):
            run = self._records.execution(id_)
            if run is not None and run.state in UNFINISHED:
                alive.append(run)
        self._seen[name] = [run.id for run in alive]
        return alive

    def _stop(self, name: str, why: str, unfinished: Sequence[Execution], now: datetime) -> None:
        refusal: LedgerRefused | None = None
        for execution in unfinished:
            if execution.cancel_requested:
                continue
            try:
                self._records.cancel(execution.id, now=now)
            except LedgerRefused as error:
                refusal = error
                continue
            text = f"Stopping it: {why}"
            say(log, logging.INFO, "standalone.stop", text, **place_of(execution))
        self._tell_refusal(name, "stopped", refusal)

    def _begin(self, stored: StoredSchedule, now: datetime) -> None:
        which = ExecutionFilter(schedule=stored.name, limit=RUNS_LOOKED_AT)
        last = self._records.executions(which)
        ended = last[0].finished_at if last else None
        # Whoever edits or enables it wants it at once; when that was, an edit to come does not say.
        edited = stored.updated_at
        lately = [run for run in last if was_ahead(edited, now) or run.executed_at >= edited]
        ran = [(one.started_at or one.executed_at, one) for one in lately]
        wait = restart_wait([(one.finished_at or one.executed_at) - at for at, one in ran])
        if ended is not None and not was_ahead(ended, now) and now < ended + wait:
            return
        key = alive_key(last[0].id if last else 0)
        try:
            run = self._records.run_now(stored.id, key=key, params=None, now=now, node=self._node)
        except RunsAlready:  # somebody else has begun it since we looked
            return
        except (NotToBeRun, LedgerRefused) as error:
            self._tell_refusal(stored.name, "begun", error)
            return
        self._tell_refusal(stored.name, "begun", None)
        say(log, logging.INFO, "standalone.begin", "Begun, to stay alive", **place_of(run))

    def _tell_refusal(self, name: str, what: str, error: Exception | None) -> None:
        if self._is_news(f"refused {name} {what}", None if error is None else str(error)):
            say(log, logging.ERROR, "standalone.refused", f"{name} cannot be {what}: {error}")

    def is_ours(self, stored: StoredSchedule) -> bool:  # noqa: ARG002 - a finder asks
        """Tell whether it runs here: each that was named does."""
        return True

    def let_go(self, name: str) -> None:
        """Keep it running no more: it was named, so its row is looked at further on."""

    def _is_news(self, what: str, trouble: str | None) -> bool:
        known = self._troubles.pop(what, None)
        if trouble is not None:
            self._troubles[what] = trouble
        return trouble not in (None, known)


#: Seconds between two looks for rows that were not there, while none is kept running.
FIND_EVERY: Final = 2.0

#: So many runs are asked for at once.
_AT_ONCE: Final = 1_000


@attrs.define(kw_only=True, eq=False)
class StandaloneFinder(StandaloneKeeper):
    """Finds what stays alive and has its task here, for who has all there is in one process.

    What was begun to stay alive, and is to no more, is taken over as well, so that its run is
    ended: nobody else would, if none of us was there when its row was edited. *serve* has a queue
    served, *leave* no more.
    """

    names: list[str] = attrs.field(init=False, factory=list[str])
    _catalog: Catalog
    _serve: Callable[[str], object]
    _leave: Callable[[str], object]
    _left_out: frozenset[str] = attrs.field(init=False, default=frozenset())
    _tasks: tuple[Task, ...] = attrs.field(init=False, default=())
    _looked_at: datetime | None = attrs.field(init=False, default=None)
    _compared_at: datetime | None = attrs.field(init=False, default=None)

    def round(self) -> float:
        self.look()
        return super().round() if self.names else FIND_EVERY

    def look(self) -> None:
        """Look once; what is found is kept, once its queue is asked to be served.

        What was edited of late is asked for, and all that there is now and then: see `Dispatcher`.
        """
        now, tasks = self._now(), tuple(self._catalog)
        since = None if self._is_to_compare(now, tasks) else self._looked_at
        asked = None if since is None else since - LATE_COMMITS
        alive = {*self._schedules.staying_alive(since=asked)}.difference(self.names)
        begun = self._begun().difference(self.names) if since is None else set[str]()
        strange = alive | begun
        found = self._schedules.schedules(strange) if strange else ()
        here = [
            each.name
            for each in found
            if each.draft and each.draft.stay_alive and each.draft.status and self.is_ours(each)
        ]
        anothers = [each.name for each in found if not self.is_ours(each)]
        self._take(here, ended=sorted(begun.difference(here, anothers)), are_all=since is None)
        self._looked_at, self._tasks = now, tasks
        if since is None:
            self._compared_at = now

    def _is_to_compare(self, now: datetime, tasks: tuple[Task, ...]) -> bool:
        """Tell whether to look at all that stays alive: what is strange may be ours by now."""
        if self._looked_at is None or self._compared_at is None or now < self._looked_at:
            return True
        has_room = bool(self._left_out) and len(self.names) < MOST_QUEUES
        return has_room or tasks != self._tasks or now >= self._compared_at + FULL_COMPARISON

    def _begun(self) -> set[str]:
        names, before = set[str](), None
        while runs := self._records.executions(
            ExecutionFilter(states=UNFINISHED, stays_alive=True, before=before, limit=_AT_ONCE)
        ):
            names.update(run.schedule_name for run in runs)
            before = runs[-1].id
        return names

    def is_ours(self, stored: StoredSchedule) -> bool:
        """Tell whether the task of a schedule is at hand, or could be by a row that is broken."""
        draft = stored.draft
        if draft is None:
            return stored.source is None or stored.source in self._catalog.sources
        found = self._catalog.find(draft.task, source=stored.source, topic=draft.topic)
        return isinstance(found, Task)

    def let_go(self, name: str) -> None:
        self.names.remove(name)
        self._leave(standalone_queue(name))
        say(log, logging.INFO, "standalone.let-go", f"{name} is kept running here no more")

    def _take(self, here: Sequence[str], *, ended: Sequence[str], are_all: bool) -> None:
        room = max(MOST_QUEUES - len(self.names), 0)
        names = [*ended, *here]  # those have their places for moments
        for name in names[:room]:
            self._serve(standalone_queue(name))
            self.names.append(name)
            text = f"{name} stays alive, and is kept running here"
            if name in ended:
                text = f"{name} has a run that was begun to stay alive, which is ended here"
            say(log, logging.INFO, "standalone.found", text)
        left = frozenset(names[room:])
        if left - self._left_out:
            text = (
                f"{listed(sorted(left))}: not kept running here, as {MOST_QUEUES} are, which is "
                "the most: they begin as some of these are disabled"
            )
            say(log, logging.WARNING, "standalone.left-out", text)
        self._left_out = left if are_all else self._left_out | left
