"""Creating and editing a schedule, with a preview of its next runs; two edits are merged."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

import attrs

from cronhare.application.administration.changing.schedules import (
    CannotEdit,
    EditedMeanwhile,
    NameTaken,
)
from cronhare.application.administration.jobs_file.notes import notes_on_times
from cronhare.application.administration.reading.schedules import preview
from cronhare.application.administration.views.schedules import DueView
from cronhare.domain.access import Scope
from cronhare.domain.cron import find_zone
from cronhare.domain.reading import Fault, read_table
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid, compile_schedule
from cronhare.domain.texts.words import ended
from cronhare.ports import LedgerRefused
from cronhare.ports.schedules import StoredSchedule

from ...api.scheduler_bodies import NewScheduler, draft_of, edit_schedule, name_for, read_new
from ...api.schedulers import etag
from ...operations import Call, Reply, Resource
from ...reading import Text
from ..pages import Context, Done, acts, shows
from ..rendering import schedule_path
from ..schedule_form import (
    AT_ONCE,
    FIELDS,
    MORE,
    content_of,
    edited_of,
    empty_values,
    merged,
    of_fields,
    read_base,
    task_choices,
    values_of,
    values_sent,
)
from .schedules import NAMED

#: So many runs are shown.
_SHOWN: Final = 6

#: The fields that say when, and those of them one of which must be given.
_WHEN: Final = ("schedule", "every", "date_time")
_TIMES: Final = (*_WHEN, "timezone", "gap", "fold", "starts_at", "ends_at")

#: The fields that say who runs it.
_WHO: Final = ("topic", "queue")

#: What of a form is sent as it is typed; the page tells its script.
_TYPED: Final = ("name", *_TIMES, *_WHO, "stay_alive")

#: Letters of a field that are looked at for a preview.
_MOST_TYPED: Final = 500


def _texts(name: str, fields: Iterable[str]) -> Any:  # noqa: ANN401 - a class that no type names
    members = {each: attrs.field(type=str, default="") for each in fields}
    return attrs.make_class(name, members, frozen=True, kw_only=True)


_NEW: Final = "/ui/new-schedule"
_NewForm: Final = _texts("NewForm", ("name", *FIELDS))
_EditForm: Final = _texts("EditForm", ("seen", "base", *FIELDS))
_Typed: Any = _texts("Typed", _TYPED)


@attrs.frozen(kw_only=True)
class Preview:
    """The next runs, or what is wrong with the times; neither where nothing is said yet.

    What *stays_alive* needs no times; with some it is begun at these alone. *notes* say what is
    allowed, and probably not meant.
    """

    upcoming: Sequence[DueView] = ()
    faults: Sequence[Fault] = ()
    notes: Sequence[str] = ()
    is_empty: bool = False
    stays_alive: bool = False


def _times_of(name: str, values: Mapping[str, str], now: datetime) -> Preview:
    stays_alive = values["stay_alive"] == "on"
    if not any(values[each] for each in _WHEN):
        return Preview(is_empty=True, stays_alive=stays_alive)
    draft, faults = _read(name, values, _TIMES)
    if faults:
        return Preview(faults=faults)
    try:
        schedule = compile_schedule(draft, id=1, changed_at=now)
    except ScheduleInvalid as error:
        return Preview(faults=error.faults)
    zone = find_zone(draft.timezone)
    notes = [note.text for note in notes_on_times(draft, now=now)]
    upcoming = [*preview(schedule, zone, after=now, count=_SHOWN)]
    return Preview(upcoming=upcoming, notes=notes, stays_alive=stays_alive)


def _read(
    name: str, values: Mapping[str, str], fields: Sequence[str]
) -> tuple[ScheduleDraft, Sequence[Fault]]:
    faults = list[Fault]()
    content = content_of({each: values[each] for each in fields}, faults, has_topic=False)
    given = {each: said for each, said in content.items() if said is not None}
    body = read_table(NewScheduler, given, faults)
    # `H` needs a name: with another one it is another minute.
    draft = draft_of(name or "unnamed", body, None, faults, policy=RetryPolicy())
    return draft, tuple(dict.fromkeys(fault for fault in faults if fault.field in fields))


class ScheduleForms(Resource):
    """The form of a new schedule, and of one that is there."""

    @shows(_NEW, "schedule_form.html", scope=Scope.ADMIN)
    def begin(self, call: Call) -> Reply[Context]:
        return self._form(call, values=empty_values())

    @acts(_NEW, "schedule_form.html", scope=Scope.ADMIN, takes=_NewForm)
    def create(self, call: Call) -> Done | Reply[Context]:
        values, name, faults = values_sent(call.content), call.content.get("name", ""), call.faults
        content = content_of(values, faults, has_topic=bool(values["topic"]))
        if not name:
            faults.append(Fault("name", "is missing"))
        try:
            draft = read_new(
                content | {"name": name or None},
                faults,
                name=name_for(uuid4()),
                container=self._container,
            )
            desk = self._container.schedule_editor()
            desk.create(draft, actor=call.actor)
        except ScheduleInvalid as error:
            return self._form(call, values=values, name=name, faults=error.faults)
        except (NameTaken, LedgerRefused) as error:
            return self._form(call, values=values, name=name, faults=[Fault("name", str(error))])
        notes = self._container.draft_notes().of(draft)
        return Done(schedule_path(name), _said(f"{name} was created.", notes))

    @shows("/ui/preview", "schedules/preview.html")
    def preview(self, query: _Typed, call: Call) -> Context:
        typed = {name: getattr(query, name)[:_MOST_TYPED] for name in _TYPED}
        values = empty_values() | {name: text for name, text in typed.items() if text}
        return {"preview": self._preview(typed["name"], values, call), "now": call.now}

    @shows(f"{NAMED}/edit", "schedule_form.html", scope=Scope.ADMIN)
    def open(self, name: Text, call: Call) -> Reply[Context]:
        stored, draft = self._stored(name)
        values = values_of(draft)
        return self._form(call, values=values, base=values, stored=stored)

    @acts(f"{NAMED}/edit", "schedule_form.html", scope=Scope.ADMIN, takes=_EditForm)
    def edit(self, name: Text, call: Call) -> Done | Reply[Context]:
        values, base = values_sent(call.content), read_base(call.content.get("base", ""))
        stored, _ = self._stored(name)
        edited, known = edited_of(values, base), call.content.get("seen")
        address = schedule_path(stored.name)
        if not edited:
            return Done(address, f"{stored.name} stays as it is.")
        content = content_of(edited, call.faults, has_topic=bool(values["topic"]))
        try:
            _, notes = edit_schedule(
                self._container, stored.id, content, call, seen=lambda row: etag(row) == known
            )
        except EditedMeanwhile:
            return self._merge(name, call, base=base, yours=values)
        except ScheduleInvalid as error:
            reply = self._form(call, values=values, base=base, stored=stored, faults=error.faults)
            return attrs.evolve(reply, value={**reply.value, "seen": known or ""})
        return Done(address, _said(f"{stored.name} was edited.", notes))

    def _stored(self, name: str) -> tuple[StoredSchedule, ScheduleDraft]:
        id_ = self._container.queries().schedule(name).id
        stored = self._container.schedules().with_id(id_)
        if stored is None or stored.draft is None:
            problem = "it was deleted meanwhile" if stored is None else stored.problem
            text = f"schedule {name} cannot be edited: {problem}. Mend its row in the table"
            raise CannotEdit(text)
        return stored, stored.draft

    def _merge(
        self, name: str, call: Call, *, base: Mapping[str, str], yours: Mapping[str, str]
    ) -> Reply[Context]:
        stored, draft = self._stored(name)
        current = values_of(draft)
        values, conflicts = merged(base, yours, current)
        differing = [
            (name, base.get(name, ""), current[name], values[name])
            for name in FIELDS
            if len({base.get(name, ""), current[name], yours[name]}) > 1
        ]
        reply = self._form(call, values=values, base=current, stored=stored)
        told = {"differing": differing, "conflicts": conflicts}
        return Reply({**reply.value, **told}, HTTPStatus.PRECONDITION_FAILED)

    def _preview(self, name: str, values: Mapping[str, str], call: Call) -> Preview:
        found = _times_of(name, values, call.now)
        notes = [*found.notes]
        for field in (field for field in _WHO if values[field]):
            # Each by itself: the other one may be half typed.
            draft, faults = _read(name, values, (field, "stay_alive"))
            notes += () if faults else self._container.draft_notes().of(draft)
        return attrs.evolve(found, notes=notes)

    def _form(
        self,
        call: Call,
        *,
        values: Mapping[str, str],
        base: Mapping[str, str] | None = None,
        stored: StoredSchedule | None = None,
        name: str = "",
        faults: Sequence[Fault] = (),
    ) -> Reply[Context]:
        name = stored.name if stored else name
        of_field = of_fields(faults)
        context: Context = {
            "now": call.now,
            "values": values,
            "base": json.dumps(dict(base or {})),
            "stored": stored,
            "seen": etag(stored) if stored else "",
            "name": name,
            "faults": of_field,
            "fields": FIELDS,
            "at_once": AT_ONCE,
            "more": MORE,
            "has_more_faults": any(of_field.keys() & {*names} for names in MORE.values()),
            "tasks": task_choices(self._container.catalog()),
            "preview": self._preview(name, values, call),
            "previewed": _TYPED,
            "differing": (),
            "conflicts": (),
        }
        return Reply(context, HTTPStatus.UNPROCESSABLE_ENTITY if faults else None)


def _said(done: str, notes: Sequence[str]) -> str:
    return " ".join((done, *(f"Note: {ended(note)}" for note in notes)))
