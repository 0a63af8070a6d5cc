"""Reading one TOML table into a value, with every fault of it at once.

msgspec checks each field strictly, but stops at the first fault of a whole; so we ask it field by
field. A field at fault is replaced by its default, so that whoever reads on can judge the rest.
"""

import enum
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import msgspec

from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.jobs_file import MOST_FAULTS
from cronhare.domain.texts.echo import LONGEST_ECHO
from cronhare.domain.texts.listing import listed

T = TypeVar("T", bound=attrs.AttrsInstance)

#: Metadata of a field that must be given, though it has a default to stand in for it.
REQUIRED = {"required": True}


#: So many names are compared with a misspelt one, which takes a while; and so many are listed.
MOST_COMPARED, MOST_LISTED = 1_000, 20

WORDS = {
    str: "text",
    bool: "true or false",
    list[str]: "a list of texts",
    dict[str, str]: "a table of texts",
    dict[str, Any]: "a table",
}


def read_table(kind: type[T], table: object, faults: list[Fault]) -> T:
    """Read *table* as *kind*, an attrs class, and append what is wrong with it to *faults*."""
    if not isinstance(table, Mapping):
        faults.append(Fault("", f"{written(table)} is not a table"))
        return kind()
    known = attrs.fields_dict(kind)
    types = get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    for name, value in table.items():
        if len(faults) > MOST_FAULTS:
            break
        if name not in known:
            faults.append(Fault(name, f"is not known here; {hint(name, list(known))}"))
        else:
            try:
                values[name] = msgspec.convert(value, types[name])
            except msgspec.ValidationError:
                faults.append(Fault(name, f"{written(value)} is not {_words(types[name])}"))
    faults += [
        Fault(name, "is missing")
        for name, field in known.items()
        if field.metadata == REQUIRED and name not in table
    ]
    return kind(**values)


def hint(name: str, known: Sequence[str]) -> str:
    """Say which of the known names may have been meant, or which there are."""
    close = get_close_matches(name[:LONGEST_ECHO], known[:MOST_COMPARED], n=1)
    return (
        f"did you mean {close[0]}?"
        if close
        else f"there are {listed(sorted(known), most=MOST_LISTED)}"
    )


def written(value: object) -> str:
    """Show a value about as it was written, cut when it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_ECHO else f"{text[: LONGEST_ECHO - 3]}..."


def _words(kind: Any) -> str:  # noqa: ANN401 - any annotation
    """Say what an annotation allows; `msgspec.Meta(description=…)` has its own words."""
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
