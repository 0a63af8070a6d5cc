"""Reading a table that somebody wrote into a struct, with all its faults at once.

The annotations of the struct, a class of msgspec or attrs, say what is allowed: a type, its bounds
(`msgspec.Meta`), and what becomes of a value that has both (`Reads`). Jobs files, rows of schedules
and bodies of requests are read so. msgspec stops at the first fault of a value, so each field is
converted by itself. A field at fault gets its default, so that the rest can be checked.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
import msgspec

from .texts.moments import parse_duration
from .texts.printable import LONGEST_ECHO
from .texts.words import hint

T = TypeVar("T", bound=attrs.AttrsInstance | msgspec.Struct)

#: The most faults that are reported at once.
MOST_FAULTS: Final = 100

#: Metadata of a field that must be given; its default stands in for a missing one.
REQUIRED: Final = {"required": True}

_WORDS: Final[Mapping[Any, str]] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list[str]: "a list of texts",
    tuple[str, ...]: "a list of texts",
    dict[str, str]: "a table of texts",
    dict[str, Any]: "a table",
}


@attrs.frozen
class Fault:
    """What is wrong with one field."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class Invalid(ValueError):
    """A value with several faults, whose fields are places within it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(map(str, self.faults)))


@attrs.frozen
class Reads:
    """In `Annotated`: makes of a value what it means, or refuses it with a `ValueError`."""

    read: Callable[[Any], Any]


#: What is told of a value that should be a duration, and is no text.
A_DURATION: Final = msgspec.Meta(description='a duration such as "30s" or "5m"')

# What is read has another type than what is written, which `Annotated` names.
if TYPE_CHECKING:
    Duration = timedelta
else:
    Duration = Annotated[str, A_DURATION, Reads(parse_duration)]


def written(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_ECHO else f"{text[: LONGEST_ECHO - 3]}..."


def read_table(
    kind: type[T],
    table: object,
    faults: list[Fault],
    *,
    quote: Callable[[object], str] = written,
) -> T:
    """Read *table* as *kind*, and append what is wrong with it to *faults*.

    A field of attrs whose name is Python's own ends in an underscore: `class_`. *quote* shows a
    value that is refused.
    """
    plan = _plan_of(kind)  # type: ignore[arg-type] # a class is hashable
    try:
        return _at_once(kind, plan, table)
    except ValueError:
        return kind(**_one_by_one(plan, table, faults, quote))


def read_whole(kind: type[T], table: object, *, quote: Callable[[object], str] = written) -> T:
    """Read a table of use only if all of it is right; `Invalid` has every fault at once."""
    plan = _plan_of(kind)  # type: ignore[arg-type] # a class is hashable
    try:
        return _at_once(kind, plan, table)
    except ValueError as error:
        faults = list[Fault]()
        _one_by_one(plan, table, faults, quote)
        raise Invalid(faults) from error


MILLISECONDS: Final = "milliseconds"


def whole_number(allowed: range, of: str = "") -> msgspec.Meta:
    least, most = allowed[0], allowed[-1]
    words = f"a whole number{of and f' of {of}'}, {least:,}-{most:,}"
    return msgspec.Meta(ge=least, le=most, description=words)


def text_of(most: int) -> msgspec.Meta:
    return msgspec.Meta(max_length=most, description=f"text of at most {most:,} letters")


def faults_within(name: str, error: ValueError) -> Iterator[Fault]:
    for each in getattr(error, "faults", (str(error),)):
        if isinstance(each, Fault):
            dot = "." if each.field and not each.field.startswith("[") else ""
            yield Fault(f"{name}{dot}{each.field}", each.problem)
        else:
            yield Fault(name, each)


@attrs.frozen
class _Plan:
    """How tables of a kind are read: all fields at once by *whole*, or each if one is wrong."""

    whole: type[msgspec.Struct]
    kinds: Mapping[str, Any]
    readers: Mapping[str, Callable[[Any], Any]]
    attributes: Mapping[str, str]
    required: Sequence[str]


def _at_once(kind: type[T], plan: _Plan, table: Any) -> T:  # noqa: ANN401 - whatever was written
    whole = msgspec.convert(table, plan.whole)
    for name, read in plan.readers.items():
        if name in table:
            attribute = plan.attributes[name]
            msgspec.structs.force_setattr(whole, attribute, read(getattr(whole, attribute)))
    if isinstance(whole, kind):
        return whole
    given = (plan.attributes[name] for name in table)
    return kind(**{name: getattr(whole, name) for name in given})


def _one_by_one(
    plan: _Plan, table: object, faults: list[Fault], quote: Callable[[object], str]
) -> dict[str, Any]:
    values = dict[str, Any]()
    if not isinstance(table, Mapping):
        faults.append(Fault("", f"{quote(table)} is not a table"))
        return values
    for name, value in table.items():
        if len(faults) > MOST_FAULTS:
            break
        if name not in plan.kinds:
            faults.append(Fault(name, f"is not known here; {hint(name, list(plan.kinds))}"))
            continue
        try:
            found, read = msgspec.convert(value, plan.kinds[name]), plan.readers.get(name)
            values[plan.attributes[name]] = found if read is None else read(found)
        except msgspec.ValidationError:
            faults.append(Fault(name, f"{quote(value)} is not {_words(plan.kinds[name])}"))
        except ValueError as error:
            faults += faults_within(name, error)
    faults += [Fault(name, "is missing") for name in plan.required if name not in table]
    return values


@cache
def _plan_of(kind: type[Any]) -> _Plan:
    kinds, whole = get_type_hints(kind, include_extras=True), kind
    if issubclass(kind, msgspec.Struct):
        names = {each.name: each.encode_name for each in msgspec.structs.fields(kind)}
        needed = {each.name for each in msgspec.structs.fields(kind) if each.required}
    else:
        members = attrs.fields(kind)
        names = {each.name: each.name.removesuffix("_") for each in members}
        needed = {
            each.name
            for each in members
            if each.metadata == REQUIRED or each.default is attrs.NOTHING
        }
    if not (issubclass(kind, msgspec.Struct) and kind.__struct_config__.forbid_unknown_fields):
        # What is missing is given its default by the class itself.
        given: list[Any] = [(name, kinds[name]) for name in names if name in needed]
        given += [(n, kinds[n], msgspec.UNSET) for n in names if n not in needed]
        whole = msgspec.defstruct(kind.__name__, given, rename=names, forbid_unknown_fields=True)
    return _Plan(
        whole=whole,
        kinds={written: kinds[name] for name, written in names.items()},
        readers={names[name]: each.read for name in names for each in _reads(kinds[name])},
        attributes={written: name for name, written in names.items()},
        required=[names[name] for name in names if name in needed],
    )


def _reads(kind: Any) -> Iterator[Reads]:  # noqa: ANN401 - any annotation
    if isinstance(kind, Reads):
        yield kind
    for part in get_args(kind):
        yield from _reads(part)


def _words(kind: Any) -> str:  # noqa: ANN401 - any annotation
    if kind in _WORDS:
        return _WORDS[kind]
    parts = [
        each
        for each in get_args(kind)
        if each not in {NoneType, msgspec.UnsetType} and not isinstance(each, Reads)
    ]
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(written, parts))}"
    if isinstance(kind, enum.EnumMeta):
        return f"one of {', '.join(map(written, kind))}"
    for part in parts:
        if isinstance(part, msgspec.Meta):
            return str(part.description)
    return " or ".join(map(_words, parts))
