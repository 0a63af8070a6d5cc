"""Tables are read into structs, and what is wrong with them is told at once."""

from typing import Annotated

import attrs
import msgspec
import pytest

from cronhare.domain.reading import Fault, Invalid, Reads, read_table, read_whole, whole_number
from cronhare.domain.texts.printable import echo


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("is odd")
    return number * 10


def _each_named(names: list[str]) -> tuple[str, ...]:
    if faults := [Fault(f"[{n}]", "is empty") for n, name in enumerate(names) if not name]:
        raise Invalid(faults)
    return tuple(names)


Even = Annotated[int, whole_number(range(1, 2_000)), Reads(_even)]


@attrs.frozen(kw_only=True)
class OfAttrs:
    must: str = attrs.field(default="-", metadata={"required": True})
    class_: Even = 2
    names: Annotated[list[str], Reads(_each_named)] | None = None


class Strict(msgspec.Struct, rename={"number": "number_ms"}, forbid_unknown_fields=True):
    must: str = "-"
    number: Even = 2


class Plain(msgspec.Struct):
    must: str
    number: Even = 2


def test_every_fault_is_told_in_the_order_of_the_table_and_the_rest_is_read() -> None:
    faults = list[Fault]()

    read = read_table(OfAttrs, {"clas": 1, "names": ["", "a", ""], "class": 3}, faults)

    assert [str(fault) for fault in faults] == [
        "clas: is not known here; did you mean class?",
        "names[0]: is empty",
        "names[2]: is empty",
        "class: is odd",
        "must: is missing",
    ]
    assert read == OfAttrs()


@pytest.mark.parametrize(
    ("kind", "table", "expected"),
    [
        (OfAttrs, {"must": "a", "class": 4}, OfAttrs(must="a", class_=40)),
        (Strict, {"number_ms": 4}, Strict(number=40)),
        (Plain, {"must": "a", "number": 4}, Plain(must="a", number=40)),
    ],
)
def test_a_table_without_faults_is_a_value_of_its_class(
    kind: type[OfAttrs | Strict | Plain], table: object, expected: object
) -> None:
    faults = list[Fault]()

    assert read_table(kind, table, faults) == read_whole(kind, table) == expected
    assert faults == []


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ([], ": [] is not a table"),
        ({"number_ms": 2_000}, "number_ms: 2000 is not a whole number, 1-1,999"),
        ({"number_ms": b"22"}, "number_ms: 2 bytes is not a whole number, 1-1,999"),
        ({"must": 10**400}, "must: a number of 401 digits is not text"),
    ],
)
def test_any_value_is_refused_with_what_is_allowed(table: object, fault: str) -> None:
    faults = list[Fault]()

    read = read_table(Strict, table, faults, quote=lambda value: echo(value) if value else "[]")

    assert [str(each) for each in faults] == [fault]
    assert read == Strict()
