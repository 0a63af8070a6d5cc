"""The form of a schedule: between what a browser sends and what a jobs file would say.

Its fields have the names, the bounds and the sentences of a jobs file. A field that is left empty
says nothing: its default holds.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs
import msgspec

from cronhare.adapters.jobs.writer import said_of
from cronhare.domain.cron import Fold, Gap
from cronhare.domain.reading import Fault
from cronhare.domain.retries.policy import RetryPolicyInvalid
from cronhare.domain.schedules.catalog import Catalog, NoListener
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import (
    DEFAULT_MISFIRE,
    DEFAULT_ZONE,
    MisfirePolicy,
    OverlapPolicy,
)
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.texts.printable import echo

from ..api.scheduler_bodies import COLUMNS
from ..bodies import beyond_bounds, decoded
from ..problems import Problem

#: The fields that hold text as it is.
TEXTS: Final = (
    "description", "topic", "schedule", "every", "date_time", "timezone", "timeout", "jitter",
    "starts_at", "ends_at", "queue", "expires",
)  # fmt: skip
#: Fields with one of some words, the default first.
CHOICES: Final = {
    "gap": tuple(each.value for each in Gap),
    "fold": tuple(each.value for each in Fold),
    "overlap": tuple(each.value for each in OverlapPolicy),
    "misfire_policy": tuple(
        sorted(MisfirePolicy, key=lambda each: each is not DEFAULT_MISFIRE.policy)
    ),
    "no_listener": tuple(each.value for each in NoListener),
}
#: Fields of JSON, and lists with a comma between.
JSON_FIELDS: Final = ("params", "retry")
_LISTS: Final = ("skip_on", "only_on", "blackout")
#: Whole numbers.
_NUMBERS: Final = (
    "max_runs", "pause_after", "misfire_cap", "concurrency_limit", "user_id", "group_id",
    "language_id",
)  # fmt: skip
#: Fields that are parts of a table of a jobs file: it is said as a whole, or not at all.
PARTS: Final = {
    "misfire": {"policy": "misfire_policy", "window": "misfire_window", "cap": "misfire_cap"},
    "concurrency": {"key": "concurrency_key", "limit": "concurrency_limit"},
}
#: Boxes to tick: one that is not sends nothing.
_BOXES: Final = ("status", "stay_alive")
TABLE_OF: Final = {field: table for table, parts in PARTS.items() for field in parts.values()}

#: All that a form has besides the name.
FIELDS: Final = (
    "task", *TEXTS, *CHOICES, "misfire_window", "concurrency_key", *JSON_FIELDS, *_LISTS, *_NUMBERS,
    *_BOXES,
)  # fmt: skip

_ON, _OFF = "on", "off"


@attrs.frozen
class TaskChoice:
    """A task that may be chosen: its *value* in the form, and what people call it."""

    value: str
    title: str


def task_choices(catalog: Catalog) -> list[TaskChoice]:
    """List the tasks that there are: what a task is comes from a jobs file alone."""
    return [
        TaskChoice(_value_of(task.ref), f"{task.name} ({task.ref.type} {task.ref.id})")
        for task in sorted(catalog, key=lambda task: task.name)
        if task.ref.type in COLUMNS.values()
    ]


def empty_values() -> dict[str, str]:
    """Give the values of the form of a new schedule."""
    firsts = {name: words[0] for name, words in CHOICES.items()}
    return (
        dict.fromkeys(FIELDS, "")
        | firsts
        | {
            "timezone": DEFAULT_ZONE,
            "status": _ON,
            "stay_alive": _OFF,
        }
    )


def values_of(draft: ScheduleDraft) -> dict[str, str]:
    """Give the values of the form of a schedule as it is."""
    written: dict[str, Any] = said_of(attrs.evolve(draft, params="{}"))
    for table, parts in PARTS.items():
        said = written.pop(table, {})
        written |= {parts[name]: value for name, value in said.items()}
    params = "" if draft.params == "{}" else _shown("params", msgspec.json.decode(draft.params))
    shown = {name: _shown(name, said) for name, said in written.items() if name in FIELDS}
    own = {"task": "" if draft.topic else _value_of(draft.task), "params": params}
    boxes = {name: _ON if getattr(draft, name) else _OFF for name in _BOXES}
    return empty_values() | shown | own | boxes


def values_sent(form: Mapping[str, str]) -> dict[str, str]:
    """Give the values that a browser sent; an unticked box sends nothing."""
    values = {name: form.get(name, "").replace("\r\n", "\n").strip() for name in FIELDS}
    return values | {name: values[name] or _OFF for name in _BOXES}


def content_of(
    values: Mapping[str, str], faults: list[Fault], *, has_topic: bool
) -> dict[str, Any]:
    """Give what values say as a body of the API; None is said of what is to have its default.

    What is called params in the form is the payload of what *has_topic*.
    """
    content = dict[str, Any]()
    for name, text in values.items():
        if name == "task":
            content |= {} if has_topic and not text else _task(text, faults)
        elif name not in TABLE_OF:  # those are below, with the others of their table
            content[name] = _content(name, text, faults)
    if has_topic and "params" in content:
        content["payload"] = content.pop("params")
    for table, parts in PARTS.items():
        if parts.values() & values.keys():
            said = {part: values.get(field, "") for part, field in parts.items()}
            given = {part: _said(parts[part], text) for part, text in said.items() if text}
            content[table] = given or None
    return content


def _content(name: str, text: str, faults: list[Fault]) -> Any:  # noqa: ANN401 - any JSON value
    """Read one field; a choice that is the default says nothing."""
    if name in _BOXES:
        if text not in {_ON, _OFF}:
            faults.append(Fault(name, f"is {echo(text)}; allowed: {_ON}, {_OFF}, or nothing"))
        return text == _ON
    if not text or (name in CHOICES and text == CHOICES[name][0]):
        return None
    if name in JSON_FIELDS:
        return _json(name, text, faults)
    if name in _LISTS:
        return [part.strip() for part in text.split(",") if part.strip()]
    return _said(name, text)


def _said(name: str, text: str) -> str | int:
    """Read a number; what is none is refused in the words of a jobs file."""
    return _number(text) if name in _NUMBERS else text


def _number(text: str) -> str | int:
    """Read a whole number of 64 bits; what is none stays a text."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 19  # noqa: PLR2004 - 64 bits
    return int(text) if is_number else text


def _value_of(ref: TaskRef) -> str:
    return f"{ref.type} {ref.id}"


def _task(text: str, faults: list[Fault]) -> dict[str, Any]:
    kind, _, number = text.partition(" ")
    for column, known in COLUMNS.items():
        if kind == known.value and isinstance(id_ := _number(number), int):
            return {column: id_}
    faults.append(Fault("task", "choose one"))
    return {}


def _json(name: str, text: str, faults: list[Fault]) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON with the bounds of the API's bodies."""
    try:
        value = decoded(text.encode(errors="surrogatepass"))
    except Problem as problem:
        faults.append(Fault(name, problem.detail.removeprefix("the body ")))
        return None
    beyond = beyond_bounds(name, value)
    faults += beyond
    return None if beyond else value


def _shown(name: str, value: Any) -> str:  # noqa: ANN401 - a value of a jobs file
    if name in JSON_FIELDS:
        return json.dumps(value, ensure_ascii=False, indent=2)
    if name in _LISTS:
        return ", ".join(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


#: Fields of which one stands in the other's place: both are said where one is edited.
_EITHER: Final = frozenset({"task", "topic"})


def edited_of(values: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """Give the values that differ from those an edit began with; of a table all its parts."""
    differing = _differing(values, base)
    if differing & _EITHER:
        differing |= _EITHER
    tables = {TABLE_OF[name] for name in differing if name in TABLE_OF}
    return {
        name: values[name] for name in FIELDS if name in differing or TABLE_OF.get(name) in tables
    }


def merged(
    base: Mapping[str, str], yours: Mapping[str, str], current: Mapping[str, str]
) -> tuple[dict[str, str], set[str]]:
    """Merge two edits of *base*; answers the values, and which of them both have edited.

    Where only one has edited a field, that holds; where both have, yours does, and is told.
    """
    mine, theirs = _differing(yours, base), _differing(current, base)
    values = {name: yours[name] if name in mine else current[name] for name in FIELDS}
    return values, {name for name in mine & theirs if yours[name] != current[name]}


def _differing(values: Mapping[str, str], base: Mapping[str, str]) -> set[str]:
    return {name for name in FIELDS if values[name] != base.get(name, "")}


def read_base(text: str) -> dict[str, str]:
    """Read the values that an edit began with, as its form brought them back."""
    try:
        found = msgspec.json.decode(text)  # no text of it has a lone surrogate
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if name in FIELDS and type(value) is str}


LABELS: Final = {
    "name": "Name",
    "task": "Task",
    "topic": "Or a topic",
    "no_listener": "If nobody listens",
    "description": "Description",
    "status": "State",
    "params": "Params",
    "schedule": "Cron text",
    "every": "Every",
    "date_time": "Once at",
    "timezone": "Time zone",
    "gap": "A time that the clock leaps over",
    "fold": "A time that comes twice",
    "stay_alive": "Runs on and on",
    "overlap": "While an earlier run has not ended",
    "timeout": "Timeout",
    "jitter": "Jitter",
    "queue": "Queue",
    "expires": "Begins within",
    "max_runs": "Runs at most",
    "pause_after": "Paused after failures",
    "starts_at": "Not before",
    "ends_at": "Not after",
    "skip_on": "Not on days of",
    "only_on": "Only on days of",
    "blackout": "Blackout",
    "retry": "Retries",
    "misfire_policy": "Runs that were missed",
    "misfire_window": "Missed at most",
    "misfire_cap": "Caught up at most",
    "concurrency_key": "Concurrency key",
    "concurrency_limit": "Concurrency limit",
    "user_id": "User",
    "group_id": "Group",
    "language_id": "Language",
}

#: The fields that are seen without opening what is below "More".
AT_ONCE: Final = frozenset(
    {
        "name", "task", "topic", "no_listener", "description", "status", "params", "schedule",
        "every", "date_time", "timezone", "gap", "fold", "stay_alive",
    }
)  # fmt: skip

#: Fields of a fault that the form has under another name.
_FIELD_OF: Final = {
    **dict.fromkeys(COLUMNS, "task"),
    "payload": "params",
    **{table: next(iter(parts.values())) for table, parts in PARTS.items()},
    **{f"{table}.{part}": field for table, parts in PARTS.items() for part, field in parts.items()},
}


def of_fields(faults: Iterable[Fault]) -> dict[str, str]:
    """Give what is wrong with each field of the form."""
    found = dict[str, str]()
    for fault in faults:
        field = _FIELD_OF.get(fault.field, fault.field.split(".")[0].split("[")[0])
        problem = fault.problem.removeprefix(f"{RetryPolicyInvalid.code}: ")
        if field in JSON_FIELDS:  # what is a table in a jobs file
            problem = problem.replace("a table", "an object")
        found[field] = f"{found[field]}; {problem}" if field in found else problem
    return found
