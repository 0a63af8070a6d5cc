"""Reading one TOML table into a value, with all its faults at once.

msgspec stops at the first fault of a value, so each field is converted by itself. A field at fault
gets its default, so that the rest can be checked.
"""

import enum
from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import msgspec

from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.jobs_file import MOST_FAULTS
from cronhare.domain.texts.echo import LONGEST_ECHO
from cronhare.domain.texts.hint import hint

T = TypeVar("T", bound=attrs.AttrsInstance)

#: Metadata of a field that must be given; its default stands in for a missing one.
REQUIRED = {"required": True}

WORDS = {
    str: "text",
    bool: "true or false",
    list[str]: "a list of texts",
    dict[str, str]: "a table of texts",
    dict[str, Any]: "a table",
}


def read_table(kind: type[T], table: object, faults: list[Fault]) -> T:
    """Read *table* as *kind*, an attrs class, and append what is wrong with it to *faults*.

    A field whose name is Python's own ends in an underscore: `class_`.
    """
    if not isinstance(table, Mapping):
        faults.append(Fault("", f"{written(table)} is not a table"))
        return kind()
    known = {field.name.removesuffix("_"): field for field in attrs.fields(kind)}
    types = get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    for name, value in table.items():
        if len(faults) > MOST_FAULTS:
            break
        if name not in known:
            faults.append(Fault(name, f"is not known here; {hint(name, list(known))}"))
        else:
            try:
                field = known[name].name
                values[field] = msgspec.convert(value, types[field])
            except msgspec.ValidationError:
                faults.append(Fault(name, f"{written(value)} is not {_words(types[field])}"))
    faults += [
        Fault(name, "is missing")
        for name, field in known.items()
        if field.metadata == REQUIRED and name not in table
    ]
    return kind(**values)


def written(value: object) -> str:
    """Show a value about as it was written, cut to `LONGEST_ECHO`."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_ECHO else f"{text[: LONGEST_ECHO - 3]}..."


def _words(kind: Any) -> str:  # noqa: ANN401 - any annotation
    """Describe what an annotation allows, by its `msgspec.Meta(description=…)` if it has one."""
    if kind in WORDS:
        return WORDS[kind]
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(written, parts))}"
    if isinstance(kind, enum.EnumMeta):
        return f"one of {', '.join(map(written, kind))}"
    for part in parts:
        if isinstance(part, msgspec.Meta):
            return str(part.description)
    return " or ".join(_words(part) for part in parts if part is not NoneType)
