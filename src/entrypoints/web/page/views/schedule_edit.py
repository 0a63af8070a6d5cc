"""Creating and editing a schedule, with a preview of its next runs; two edits are merged."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from uuid import uuid4

import attrs
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from cronhare.application.administration.changing.schedules import (
    CannotEdit,
    EditedMeanwhile,
    NameTaken,
)
from cronhare.application.administration.jobs_file.notes import notes_on_times
from cronhare.application.administration.reading.schedules import preview
from cronhare.application.administration.views.schedules import DueView
from cronhare.domain.access import Actor, Scope
from cronhare.domain.cron import find_zone
from cronhare.domain.reading import Fault, read_table
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.draft import ScheduleDraft, ScheduleInvalid, compile_schedule
from cronhare.domain.texts.words import ended
from cronhare.ports import LedgerRefused
from cronhare.ports.schedules import StoredSchedule

from ...access import actor_of
from ...api.scheduler_bodies import NewScheduler, draft_of, name_for, read_new, read_patch
from ...api.scheduler_views import etag
from ..asked import form_of
from ..pages import HEADERS, Pages
from ..rendering import schedule_path
from ..schedule_form import (
    AT_ONCE,
    CHOICES,
    FIELDS,
    LABELS,
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

#: So many runs are shown.
_SHOWN: Final = 6

#: The fields that say when, and those of them one of which must be given.
_WHEN: Final = ("schedule", "every", "date_time")
_TIMES: Final = (*_WHEN, "timezone", "gap", "fold", "starts_at", "ends_at")

#: The fields that say who runs it.
_WHO: Final = ("topic", "queue")

#: The fields of a form that are looked at here, besides the name.
PREVIEWED: Final = (*_TIMES, *_WHO, "stay_alive")

#: Notes what is probably not meant in who is to run a draft: see `DraftNotes.of`.
OnDraft: TypeAlias = Callable[[ScheduleDraft], Sequence[str]]


@attrs.frozen(kw_only=True)
class Preview:
    """The next runs, or what is wrong with the times; neither where nothing is said yet.

    What *stays_alive* needs no times; with some it is begun at these alone. *notes* say what is
    allowed, and probably not meant.
    """

    now: datetime
    upcoming: Sequence[DueView] = ()
    faults: Sequence[Fault] = ()
    notes: Sequence[str] = ()
    is_empty: bool = False
    stays_alive: bool = False


def preview_of(
    name: str, values: Mapping[str, str], *, now: datetime, notes_on: OnDraft
) -> Preview:
    """Preview the values of a form; what is wrong with other fields is no matter here."""
    preview = _times_of(name, values, now)
    return attrs.evolve(preview, notes=[*preview.notes, *_notes_on_who(name, values, notes_on)])


def _times_of(name: str, values: Mapping[str, str], now: datetime) -> Preview:
    stays_alive = values["stay_alive"] == "on"
    if not any(values[each] for each in _WHEN):
        return Preview(now=now, is_empty=True, stays_alive=stays_alive)
    draft, faults = _read(name, values, _TIMES)
    if faults:
        return Preview(now=now, faults=faults)
    try:
        schedule = compile_schedule(draft, id=1, changed_at=now)
    except ScheduleInvalid as error:
        return Preview(now=now, faults=error.faults)
    zone = find_zone(draft.timezone)
    notes = [note.text for note in notes_on_times(draft, now=now)]
    upcoming = [*preview(schedule, zone, after=now, count=_SHOWN)]
    return Preview(now=now, upcoming=upcoming, notes=notes, stays_alive=stays_alive)


def _notes_on_who(name: str, values: Mapping[str, str], notes_on: OnDraft) -> Sequence[str]:
    """Note a queue or a topic, each by itself: the other one may be half typed."""
    found = list[str]()
    for field in _WHO:
        if values[field]:
            draft, faults = _read(name, values, (field, "stay_alive"))
            found += () if faults else notes_on(draft)
    return found


def _read(
    name: str, values: Mapping[str, str], fields: Sequence[str]
) -> tuple[ScheduleDraft, Sequence[Fault]]:
    """Read some fields of a form, with the faults of these."""
    faults = list[Fault]()
    content = content_of({each: values[each] for each in fields}, faults, has_topic=False)
    given = {each: said for each, said in content.items() if said is not None}
    body = read_table(NewScheduler, given, faults)
    # `H` needs a name: with another one it is another minute.
    draft = draft_of(name or "unnamed", body, None, faults, policy=RetryPolicy())
    return draft, tuple(dict.fromkeys(fault for fault in faults if fault.field in fields))


_NEW: Final = "/ui/new-schedule"
_EDIT: Final = "/ui/schedules/{name:path}/edit"

#: What of a form is sent as it is typed; the page tells its script.
_TYPED: Final = ("name", *PREVIEWED)


def routes(pages: Pages) -> Iterable[BaseRoute]:
    """Make the routes."""
    desk = _Desk(pages)
    return [
        pages.get(_NEW, desk.new, scope=Scope.ADMIN),
        pages.post(_NEW, desk.create, scope=Scope.ADMIN, takes=("name", *FIELDS)),
        pages.get("/ui/preview", desk.preview, takes=_TYPED),
        pages.get(_EDIT, desk.open, scope=Scope.ADMIN),
        pages.post(_EDIT, desk.edit, scope=Scope.ADMIN, takes=("seen", "base", *FIELDS)),
    ]


class _Desk:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._container = pages.container

    def new(self, request: Request) -> Response:
        return self._form(request, values=empty_values())

    def create(self, request: Request) -> Response:
        form, actor, faults = form_of(request), actor_of(request), list[Fault]()
        values, name = values_sent(form), form.get("name", "").strip()
        content = content_of(values, faults, has_topic=bool(values["topic"]))
        if not name:
            faults.append(Fault("name", "is missing"))
        try:
            draft = read_new(
                content | {"name": name or None},
                faults,
                name=name_for(uuid4()),
                catalog=self._container.catalog(),
                policy=self._container.settings().policy,
            )
            notes = self._create(draft, actor)
        except ScheduleInvalid as error:
            return self._form(request, values=values, name=name, faults=error.faults)
        except (NameTaken, LedgerRefused) as error:
            fault = Fault("name", str(error))
            return self._form(request, values=values, name=name, faults=[fault])
        return self._pages.done(schedule_path(name), _said(f"{name} was created.", notes))

    def _create(self, draft: ScheduleDraft, actor: Actor) -> Sequence[str]:
        self._container.schedule_desk().create(draft, actor=actor)
        notes: Sequence[str] = self._container.draft_notes().of(draft)
        return notes

    def open(self, request: Request) -> Response:
        stored, draft = self._stored(request)
        values = values_of(draft)
        return self._form(request, values=values, base=values, stored=stored)

    def edit(self, request: Request) -> Response:
        form, actor = form_of(request), actor_of(request)
        values, base = values_sent(form), read_base(form.get("base", ""))
        stored, _ = self._stored(request)
        edited = edited_of(values, base)
        address = schedule_path(stored.name)
        if not edited:
            return self._pages.done(address, f"{stored.name} stays as it is.")
        faults = list[Fault]()
        content = content_of(edited, faults, has_topic=bool(values["topic"]))

        notes = list[str]()

        def change(seen: StoredSchedule, draft: ScheduleDraft) -> ScheduleDraft:
            new = read_patch(
                content,
                faults,
                stored=seen,
                draft=draft,
                catalog=self._container.catalog(),
                policy=self._container.settings().policy,
            )
            notes[:] = self._container.draft_notes().of(new, before=draft)
            return new

        editor = self._container.schedule_editor()
        try:
            editor.edit(
                stored.id, change, seen=lambda row: etag(row) == form.get("seen"), actor=actor
            )
        except EditedMeanwhile:
            return self._merge(request, base=base, yours=values)
        except ScheduleInvalid as error:
            return self._form(
                request,
                values=values,
                base=base,
                stored=stored,
                seen=form.get("seen"),
                faults=error.faults,
            )
        return self._pages.done(address, _said(f"{stored.name} was edited.", notes))

    def preview(self, request: Request) -> Response:
        """Answer a piece of a page: what times would come of what is typed."""
        values = empty_values() | {
            name: text[:500] for name, text in request.query_params.items() if name in PREVIEWED
        }

        found = preview_of(
            request.query_params.get("name", "")[:100],
            values,
            now=self._container.queries().now(),
            notes_on=self._container.draft_notes().of,
        )
        shown = self._pages.fragment("schedules/preview.html", preview=found, now=found.now)
        return HTMLResponse(shown, headers=HEADERS)

    def _stored(self, request: Request) -> tuple[StoredSchedule, ScheduleDraft]:
        name = request.path_params["name"]
        id_ = self._container.queries().schedule(name).id
        stored = self._container.schedules().with_id(id_)
        if stored is None or stored.draft is None:
            problem = "it was deleted meanwhile" if stored is None else stored.problem
            text = f"schedule {name} cannot be edited: {problem}. Mend its row in the table"
            raise CannotEdit(text)
        return stored, stored.draft

    def _merge(
        self, request: Request, *, base: Mapping[str, str], yours: Mapping[str, str]
    ) -> Response:
        stored, draft = self._stored(request)
        current = values_of(draft)
        values, conflicts = merged(base, yours, current)
        differing = [
            (name, base.get(name, ""), current[name], values[name])
            for name in FIELDS
            if len({base.get(name, ""), current[name], yours[name]}) > 1
        ]
        return self._form(
            request,
            status=HTTPStatus.PRECONDITION_FAILED,
            values=values,
            base=current,
            stored=stored,
            differing=differing,
            conflicts=conflicts,
        )

    def _form(
        self,
        request: Request,
        *,
        values: Mapping[str, str],
        base: Mapping[str, str] | None = None,
        stored: StoredSchedule | None = None,
        seen: str | None = None,
        name: str = "",
        faults: Sequence[Fault] = (),
        status: int = HTTPStatus.OK,
        differing: Sequence[tuple[str, str, str, str]] = (),
        conflicts: Iterable[str] = (),
    ) -> Response:
        shown = preview_of(
            stored.name if stored else name,
            values,
            now=self._container.queries().now(),
            notes_on=self._container.draft_notes().of,
        )
        of_field = of_fields(faults)
        context: dict[str, Any] = {
            "now": shown.now,
            "values": values,
            "base": json.dumps(dict(base or {})),
            "stored": stored,
            "seen": seen or (etag(stored) if stored else ""),
            "name": stored.name if stored else name,
            "faults": of_field,
            "has_more_faults": bool(of_field.keys() & LABELS.keys() - AT_ONCE),
            "labels": LABELS,
            "tasks": task_choices(self._container.catalog()),
            "choices": CHOICES,
            "preview": shown,
            "previewed": _TYPED,
            "differing": differing,
            "conflicts": set(conflicts),
        }
        if faults:
            status = HTTPStatus.UNPROCESSABLE_ENTITY
        return self._pages.render(request, "schedule_form.html", status=status, **context)


def _said(done: str, notes: Sequence[str]) -> str:
    """Say what was done, and what is probably not meant with it."""
    return " ".join((done, *(f"Note: {ended(note)}" for note in notes)))
