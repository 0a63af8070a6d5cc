"""Schedules that people create one by one, and runs of reports that no schedule of a file names."""

from datetime import datetime
from typing import Final
from uuid import UUID

import attrs

from cronhare.domain.access import Actor
from cronhare.domain.access.audit import Action
from cronhare.domain.execution import Execution
from cronhare.domain.schedules.catalog import Catalog, reports_called
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskType
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import listed, meant
from cronhare.ports.schedules import ScheduleStorePort

from .audit_trail import AuditTrail
from .audit_values import values_of
from .commands import Administrator, CannotRun
from .lookup import NotFound, refuse_unknown_calendars

#: How the names begin under which reports are run on request. No schedule of a jobs file can have
#: such a name, as that has no slash.
REPORTS: Final = "reports/"


class NameTaken(ValueError):
    """Another schedule has this name; nothing was changed."""


class ScheduleDesk:
    """Creates schedules of no file."""

    def __init__(self, schedules: ScheduleStorePort, trail: AuditTrail) -> None:
        """Keep the table."""
        self._schedules = schedules
        self._trail = trail

    def create(
        self, draft: ScheduleDraft, *, now: datetime, actor: Actor, request: str | None = None
    ) -> int:
        """Create a schedule of a draft without faults; answers its id.

        A *request*, its digest, may have been asked twice at a time: who comes second is answered
        what the first one made, whatever became of it. See `made_by`, too.

        Raises:
            ScheduleInvalid: it names a calendar that there is not.
            NameTaken: another schedule has the name.
            LedgerRefused: the table refuses it.
        """
        refuse_unknown_calendars(self._schedules, draft)
        with self._trail.change(
            actor, Action.CREATE, draft.name, now=now, after=values_of(draft)
        ) as note:
            id_ = self._schedules.create(draft, now=now, request=request)
            if id_ is not None:
                return id_
            if request is not None:
                id_ = self._schedules.made_by(request, name=draft.name) or self._made_before(draft)
                if id_ is not None:
                    note.unless(changed=False)
                    return id_
            raise NameTaken(f"there is a schedule {draft.name} already")

    def made_by(self, request: str, *, name: str, now: datetime, actor: Actor) -> int | None:
        """Find the schedule that a request has made, to which it gave that *name*.

        It may have been edited since, and its task may be gone: a repetition is answered what the
        first one began.
        """
        id_ = self._schedules.made_by(request, name=name)
        if id_ is not None:
            with self._trail.change(actor, Action.CREATE, name, now=now) as note:
                note.unless(changed=False)
        return id_

    def _made_before(self, draft: ScheduleDraft) -> int | None:
        """Find what a release made that kept no request: it is known by what its row says."""
        id_ = self._schedules.made_by(None, name=draft.name)
        stored = None if id_ is None else self._schedules.with_id(id_)
        return id_ if stored is not None and _is_made_of(stored.draft, draft) else None


def _is_made_of(stored: ScheduleDraft | None, draft: ScheduleDraft) -> bool:
    """Tell whether a row says what a draft does; policies come from the file, which may change."""
    if stored is None:
        return False
    return draft == attrs.evolve(stored, retry=draft.retry, retention=draft.retention)


class ReportDesk:
    """Runs a report now, by its name (S0.8 in docs/compatibility.md).

    Each run in the ledger belongs to a schedule. That of such runs is due at no time, and is made
    with the first of them.
    """

    def __init__(
        self, *, schedules: ScheduleStorePort, administrator: Administrator, catalog: Catalog
    ) -> None:
        """*catalog* has the tasks that may be asked for."""
        self._schedules = schedules
        self._administrator = administrator
        self._catalog = catalog

    def generate(
        self, controller: str, *, params: str, now: datetime, actor: Actor, request: UUID | None
    ) -> Execution:
        """Begin a run; a *request* that is asked again is answered the run that it began.

        Raises:
            NotFound: there is no such report, or there are several.
            CannotRun: the params are too large, or the ledger refuses it.
            RequestReused: the request began a run with other params.
        """
        name = self._schedule_of(self._report(controller), now=now)
        return self._administrator.run_now(
            name, params=params, now=now, actor=actor, request=request
        )

    def _report(self, controller: str) -> Task:
        found = reports_called(self._catalog, controller)
        if len(found) == 1:
            return found[0]
        if found:
            several = " and ".join(task.name for task in found)
            raise NotFound(f"{echo(controller)} is the name of {several}: say which one")
        names = sorted(task.name for task in self._catalog if task.ref.type == TaskType.REPORT)
        there = meant(controller, names) or f"there is {listed(names) or 'none'}"
        raise NotFound(f"there is no report {echo(controller)}; {there}")

    def _schedule_of(self, task: Task, *, now: datetime) -> str:
        """Give the schedule of a report's runs on request, as its file has the report by now."""
        new = ScheduleDraft(
            name=f"{REPORTS}{task.name}",
            task=task.ref,
            description=f"runs of {task.name} that were asked for",
            retry=task.policy.retry,
            retention=task.retention,
        )
        stored = self._schedules.schedules([new.name])
        if not stored and self._schedules.create(new, now=now) is None:
            stored = self._schedules.schedules([new.name])  # another request was first
        for each in stored:
            if each.draft is None:
                raise CannotRun(f"schedule {each.name}, its row is broken: {each.problem}")
            wanted = attrs.evolve(
                each.draft, task=new.task, retry=new.retry, retention=new.retention
            )
            if wanted != each.draft:
                self._schedules.save([wanted], source=None, now=now)
        return new.name
