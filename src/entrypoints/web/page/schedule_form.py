"""The form of a schedule: between what a browser sends and what a jobs file would say.

Its fields have the names, the bounds and the sentences of a jobs file. A field that is left empty
says nothing: its default holds.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
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
from ..problems import Problem
from ..reading import beyond_bounds, decoded


@attrs.frozen
class Field:
    """A field: what it is called, and how it is *read*: as text, json, list, number, box or task.

    It has one of these *words*, the default first, if it has any. In a jobs file it may be a *part*
    of a table, which is said as a whole or not at all.
    """

    label: str
    hint: str | None = None
    read: str = attrs.field(default="text", kw_only=True)
    words: Sequence[str] = attrs.field(default=(), kw_only=True)
    part: tuple[str, str] | None = attrs.field(default=None, kw_only=True)


_CALENDARS: Final = "Calendars, with commas between"
_MISFIRES: Final = sorted(MisfirePolicy, key=lambda each: each is not DEFAULT_MISFIRE.policy)

#: The fields below their headings: those that are seen at once, and those below "More".
AT_ONCE: Final[Mapping[str, Mapping[str, Field]]] = {
    "What": {
        "task": Field("Task", read="task"),
        "topic": Field(
            "Or a topic",
            "Instead of a task, such as orders.due: each run goes to a task that listens to it.",
        ),
        "no_listener": Field(
            "If nobody listens",
            "complete: the run counts as done; fail: as failed. With a topic.",
            words=[*NoListener],
        ),
        "description": Field("Description"),
        "status": Field("State", read="box"),
        "params": Field(
            "Params",
            "JSON, as the task is given it; of a topic its payload, an object.",
            read="json",
        ),
    },
    "When: fill in one of the first three, or none if it stays alive": {
        "schedule": Field("Cron text", "Such as 30 2 * * 1-5, @daily, H * * * *"),
        "every": Field("Every", "Such as 30s, 5m, 1h30m"),
        "date_time": Field("Once at", "Such as 2027-01-01T09:00:00, in the time zone"),
        "timezone": Field("Time zone", "Such as Europe/Berlin"),
        "gap": Field(
            "A time that the clock skips", "after: in the first minute that there is", words=[*Gap]
        ),
        "fold": Field("A time that comes twice", "In which of the two it runs.", words=[*Fold]),
        "stay_alive": Field(
            "Runs on and on",
            "Without times it is begun again whenever it has ended; with times at these alone. It "
            "is run by cronhare up with its task in the jobs file, or, where the broker is a "
            "server, by cronhare worker --standalone NAME. It has no queue.",
            read="box",
        ),
    },
}
MORE: Final[Mapping[str, Mapping[str, Field]]] = {
    "How": {
        "overlap": Field("While an earlier run has not ended", words=[*OverlapPolicy]),
        "timeout": Field("Timeout", "Such as 5m"),
        "jitter": Field("Jitter", "Up to so much later, to spread a herd"),
        "queue": Field("Queue", "That of a worker; what stays alive names none"),
        "expires": Field("Begins within", "Such as 10m after it is due, or never"),
        "max_runs": Field("Runs at most", "So many times", read="number"),
        "pause_after": Field("Paused after failures", "So many in a row", read="number"),
        "starts_at": Field("Not before"),
        "ends_at": Field("Not after"),
        "skip_on": Field("Not on days of", _CALENDARS, read="list"),
        "only_on": Field("Only on days of", _CALENDARS, read="list"),
        "blackout": Field("Blackout", "Such as 22:00-06:00, Sat-Sun", read="list"),
        "retry": Field(
            "Retries",
            'JSON, such as {"attempts": 4, "backoff": {"type": "exponential", "delay": 30000}}',
            read="json",
        ),
    },
    "After a downtime, and beside others": {
        "misfire_policy": Field(
            "Runs that were missed",
            "once: the last of them; all: each; skip: none",
            words=_MISFIRES,
            part=("misfire", "policy"),
        ),
        "misfire_window": Field(
            "Missed at most", "So long ago, such as 7d", part=("misfire", "window")
        ),
        "misfire_cap": Field(
            "Caught up at most", "So many runs at once", read="number", part=("misfire", "cap")
        ),
        "concurrency_key": Field(
            "Concurrency key",
            "Runs with one key share a limit, such as customer-{params.customer_id}",
            part=("concurrency", "key"),
        ),
        "concurrency_limit": Field(
            "Concurrency limit",
            "So many of them run at once; with a key",
            read="number",
            part=("concurrency", "limit"),
        ),
    },
    "Whose": {
        "user_id": Field("User", "A number, as the others here", read="number"),
        "group_id": Field("Group", read="number"),
        "language_id": Field("Language", read="number"),
    },
}
FIELDS: Final[Mapping[str, Field]] = {
    name: field for fields in (*AT_ONCE.values(), *MORE.values()) for name, field in fields.items()
}

#: The fields that are parts of a table of a jobs file.
_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    table: {
        field.part[1]: name
        for name, field in FIELDS.items()
        if field.part is not None and field.part[0] == table
    }
    for table in ("misfire", "concurrency")
}
_BOXES: Final = ("status", "stay_alive")
_ON, _OFF = "on", "off"


@attrs.frozen
class TaskChoice:
    """A task that may be chosen: its *value* in the form, and what people call it."""

    value: str
    title: str


def task_choices(catalog: Catalog) -> list[TaskChoice]:
    return [
        TaskChoice(_value_of(task.ref), f"{task.name} ({task.ref.type} {task.ref.id})")
        for task in sorted(catalog, key=lambda task: task.name)
        if task.ref.type in COLUMNS.values()
    ]


def empty_values() -> dict[str, str]:
    firsts = {name: field.words[0] if field.words else "" for name, field in FIELDS.items()}
    return firsts | {"timezone": DEFAULT_ZONE, "status": _ON, "stay_alive": _OFF}


def values_of(draft: ScheduleDraft) -> dict[str, str]:
    written: dict[str, Any] = said_of(attrs.evolve(draft, params="{}"))
    for table, parts in _TABLES.items():
        said = written.pop(table, {})
        written |= {parts[name]: value for name, value in said.items()}
    params = "" if draft.params == "{}" else _shown("params", msgspec.json.decode(draft.params))
    shown = {name: _shown(name, said) for name, said in written.items() if name in FIELDS}
    own = {"task": "" if draft.topic else _value_of(draft.task), "params": params}
    boxes = {name: _ON if getattr(draft, name) else _OFF for name in _BOXES}
    return empty_values() | shown | own | boxes


def values_sent(form: Mapping[str, str]) -> dict[str, str]:
    return {
        name: form.get(name, _OFF if field.read == "box" else "") for name, field in FIELDS.items()
    }


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
        elif FIELDS[name].part is None:  # those are below, with the others of their table
            content[name] = _read(name, text, faults)
    if has_topic and "params" in content:
        content["payload"] = content.pop("params")
    for table, parts in _TABLES.items():
        if parts.values() & values.keys():
            said = {part: values.get(field, "") for part, field in parts.items()}
            given = {part: _said(parts[part], text) for part, text in said.items() if text}
            content[table] = given or None
    return content


def _read(name: str, text: str, faults: list[Fault]) -> Any:  # noqa: ANN401 - any JSON value
    field = FIELDS[name]
    if field.read == "box":
        if text not in {_ON, _OFF}:
            faults.append(Fault(name, f"is {echo(text)}; allowed: {_ON}, {_OFF}, or nothing"))
        return text == _ON
    if not text or (field.words and text == field.words[0]):
        return None
    if field.read == "json":
        return _json(name, text, faults)
    if field.read == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    return _said(name, text)


def _said(name: str, text: str) -> str | int:
    """Read a number of 64 bits; what is none is refused in the words of a jobs file."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 19  # noqa: PLR2004 - 64 bits
    return int(text) if is_number and FIELDS[name].read in {"number", "task"} else text


def _value_of(ref: TaskRef) -> str:
    return f"{ref.type} {ref.id}"


def _task(text: str, faults: list[Fault]) -> dict[str, Any]:
    kind, _, number = text.partition(" ")
    for column, known in COLUMNS.items():
        if kind == known.value and isinstance(id_ := _said("task", number), int):
            return {column: id_}
    faults.append(Fault("task", "choose one"))
    return {}


def _json(name: str, text: str, faults: list[Fault]) -> Any:  # noqa: ANN401 - any JSON value
    try:
        value = decoded(text.encode(errors="surrogatepass"))
    except Problem as problem:
        faults.append(Fault(name, problem.detail.removeprefix("the body ")))
        return None
    beyond = beyond_bounds(name, value)
    faults += beyond
    return None if beyond else value


def _shown(name: str, value: Any) -> str:  # noqa: ANN401 - a value of a jobs file
    if FIELDS[name].read == "json":
        return json.dumps(value, ensure_ascii=False, indent=2)
    if FIELDS[name].read == "list":
        return ", ".join(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


#: Fields of which one stands in the other's place: both are said where one is edited.
_EITHER: Final = frozenset({"task", "topic"})


def edited_of(values: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """Give the values that differ from those an edit began with; of a table all its parts."""
    differing = _differing(values, base)
    if differing & _EITHER:
        differing |= _EITHER
    for parts in _TABLES.values():
        if differing & {*parts.values()}:
            differing |= {*parts.values()}
    return {name: values[name] for name in FIELDS if name in differing}


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
    try:
        found = msgspec.json.decode(text)  # no text of it has a lone surrogate
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if name in FIELDS and type(value) is str}


#: Fields of a fault that the form has under another name.
_FIELD_OF: Final = {
    **dict.fromkeys(COLUMNS, "task"),
    "payload": "params",
    **{table: next(iter(parts.values())) for table, parts in _TABLES.items()},
    **{
        f"{table}.{part}": field
        for table, parts in _TABLES.items()
        for part, field in parts.items()
    },
}


def of_fields(faults: Iterable[Fault]) -> dict[str, str]:
    found = dict[str, str]()
    for fault in faults:
        name = _FIELD_OF.get(fault.field, fault.field.split(".")[0].split("[")[0])
        problem = fault.problem.removeprefix(f"{RetryPolicyInvalid.code}: ")
        if name in FIELDS and FIELDS[name].read == "json":  # what is a table in a jobs file
            problem = problem.replace("a table", "an object")
        found[name] = f"{found[name]}; {problem}" if name in found else problem
    return found
