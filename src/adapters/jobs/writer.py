"""Writing a jobs file of schedules, such that `plan` finds no difference.

What a task runs is known to no ledger: each gets a command that fails, for a person to replace.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec

from cronhare.adapters.toml_writing import Value, write_comment, write_table, write_value
from cronhare.domain.retries.policy import RetryPolicy, write_policy
from cronhare.domain.schedules.conditions import CalendarDraft, Conditions
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import BUILT_IN_CLASSES
from cronhare.domain.texts.moments import say_duration

from .reader import JobsFileInvalid, beyond_toml, read_jobs_text

#: So often what cannot be written is left out, and the rest read again.
_MOST_TRIES: Final = 100

#: Stands for a command that nobody here knows; it fails.
_NO_COMMAND: Final = ("false",)

_HEAD: Final = (
    "Schedules of a ledger. What their tasks run stands in the jobs files of their workers alone:",
    "replace each command, which fails as it is, by that from there; on_boot, on_start, too.",
)
_WITHOUT_TIMES: Final = "By hand; or on_boot = true, on_start = true: the ledger does not know."

Fields = dict[str, Value | None]


@attrs.frozen(kw_only=True)
class WrittenJobs:
    """A jobs file's text, and by name why schedules are *left_out* of it.

    So are calendars, as `calendars.NAME`.
    """

    text: str
    left_out: Mapping[str, str]


def write_jobs(
    drafts: Sequence[ScheduleDraft],
    *,
    source: str | None,
    path: Path,
    policy: RetryPolicy,
    calendars: Sequence[CalendarDraft] = (),
) -> WrittenJobs:
    """Write a jobs file that is to be at *path*; each draft names its task.

    What is written is read again, with *policy* as `read_jobs` has it: whatever a file cannot have
    is left out, and told.

    Raises:
        JobsFileInvalid: it is too large for a jobs file, say, or still has faults after many tries.
    """
    left_out: dict[str, str] = {}
    for _ in range(_MOST_TRIES):
        dated = [each for each in calendars if f"calendars.{each.name}" not in left_out]
        kept = [draft for draft in drafts if draft.name not in left_out]
        text = _text(kept, dated, source, left_out)
        try:
            read_jobs_text(text, path, policy=policy)
        except JobsFileInvalid as error:
            if not (faulty := _faulty(error, drafts, calendars)):
                raise
            left_out |= faulty
            fault = error
        else:
            return WrittenJobs(text=text, left_out=left_out)
    raise fault  # there is no end of it: what could not be read is not handed out


def _faulty(
    error: JobsFileInvalid, drafts: Iterable[ScheduleDraft], calendars: Iterable[CalendarDraft]
) -> Mapping[str, str]:
    places = [f"calendars.{calendar.name}" for calendar in calendars]
    of_place = {place: [place] for place in places}
    for draft in drafts:
        of_place.setdefault(f"tasks.{draft.task_name}", []).append(draft.name)
        of_place.setdefault(f"schedules.{draft.name}", []).append(draft.name)
    return {
        name: str(fault.fault) for fault in error.faults for name in of_place.get(fault.place, ())
    }


def _text(
    drafts: Sequence[ScheduleDraft],
    calendars: Iterable[CalendarDraft],
    source: str | None,
    left_out: dict[str, str],
) -> str:
    tables = [_calendar(calendar) for calendar in calendars]
    for draft in drafts:
        try:
            tables.append(_schedule(draft))
        except ValueError as error:
            left_out[draft.name] = str(error)
    kept = [draft for draft in drafts if draft.name not in left_out]
    head = "".join(f"{write_comment(line)}\n" for line in _HEAD)
    named = "" if source is None else f"source = {write_value(source)}\n"
    return "\n".join((f"{head}{named}", *_classes(kept), *_tasks(kept), *tables))


def _classes(drafts: Iterable[ScheduleDraft]) -> Iterable[str]:
    retentions = {d.retention.class_: d.retention for d in drafts if d.retention is not None}
    for name, retention in retentions.items():
        built_in = BUILT_IN_CLASSES.get(name)
        if built_in is None or built_in.keep != retention.keep:
            keep = {field: n for field, n in attrs.asdict(retention.keep).items() if n is not None}
            yield f"{write_table(('classes', name), {'keep': keep})}\n"


def _tasks(drafts: Iterable[ScheduleDraft]) -> Iterable[str]:
    of_task = {draft.task_name or "": draft for draft in drafts if draft.topic is None}
    for name, draft in sorted(of_task.items()):
        fields: Fields = {
            "type": draft.task.type,
            "id": draft.task.id,
            "command": _NO_COMMAND,
            "class": None if draft.retention is None else draft.retention.class_,
        }
        yield f"{write_table(('tasks', name), fields)}\n"


def _calendar(calendar: CalendarDraft) -> str:
    """Write the days themselves: of an iCalendar file the ledger has no more than these."""
    labels = dict[str, str]()
    for window, label in calendar.windows:
        labels.setdefault(window, label or "")  # it is called by the first
    days: Value = labels if any(labels.values()) else [window for window, _ in calendar.windows]
    fields: Fields = {"timezone": calendar.timezone, "days": days}
    return f"{write_table(('calendars', calendar.name), fields)}\n"


def _schedule(draft: ScheduleDraft) -> str:
    fields = said_of(draft)
    if draft.topic is not None and "params" in fields:
        fields["payload"] = fields.pop("params")
    remark = "" if draft.has_times else f"{write_comment(_WITHOUT_TIMES)}\n"
    if not draft.has_times:
        fields["manual"] = True
    return f"{remark}{write_table(('schedules', draft.name), fields)}\n"


def said_of(draft: ScheduleDraft) -> Fields:
    fields: Fields = {}
    for field in attrs.fields(ScheduleDraft):
        value = getattr(draft, field.name)
        if value is not None and value != field.default:
            value = say_duration(value) if isinstance(value, timedelta) else value
            write = _OTHERWISE.get(field.name)
            fields |= {field.name: value} if write is None else write(value)
    return fields


def _params(text: str) -> Fields:
    params = msgspec.json.decode(text)
    for place, problem in beyond_toml({"params": params}):
        raise ValueError(f"{''.join(place).removeprefix('.')} {problem}")
    return {"params": params}


def _retry(policy: RetryPolicy) -> Fields:
    written = write_policy(policy)
    backoff = {field: value for field, value in written["backoff"].items() if value is not None}
    return {"retry": {**written, "backoff": backoff}}


def _conditions(conditions: Conditions) -> Fields:
    expires = None if conditions.expires is None else say_duration(conditions.expires)
    names = {field: getattr(conditions, field) for field in ("skip_on", "only_on", "blackout")}
    counts = {field: getattr(conditions, field) for field in ("max_runs", "pause_after")}
    given: Fields = {**counts, "expires": expires, **names}
    return {field: value for field, value in given.items() if value}


#: How those fields of a draft are written that are not written as they are called, and are. What is
#: in the task's table, or is that table, is not written here.
_OTHERWISE: Final[Mapping[str, Callable[[Any], Fields]]] = {
    "name": lambda _: {},
    "task": lambda _: {},
    "task_name": lambda name: {"task": name},
    "params": _params,
    "retry": _retry,
    "retention": lambda _: {},
    "misfire": lambda said: {"misfire": attrs.asdict(said) | {"window": say_duration(said.window)}},
    "concurrency": lambda held: {"concurrency": msgspec.structs.asdict(held)},
    "conditions": _conditions,
}
