"""Parameters of a task: JSON by name, checked where they are bound, and again at a run."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import pytest
from pydantic import BaseModel, Field

from cronhare import App, Context, PermanentError
from cronhare.entrypoints.python.signatures import Signature, converted_result

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]


class Order(BaseModel):
    number: int = Field(gt=0)
    placed: datetime


class Strict(BaseModel, strict=True):
    within: timedelta


@dataclass
class Parcel:
    weight: int
    to: str = "Bonn"


@attrs.define
class Item:
    price: Decimal


class Struct(msgspec.Struct):
    a: int


NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def taking(kind: object, default: object = ...) -> Callable[..., object]:

    def function(it: object = default) -> object:
        return it

    if default is ...:
        function.__defaults__ = None
    function.__annotations__ = {"it": kind}
    return function


@pytest.mark.parametrize(
    ("kind", "value", "json"),
    [
        (Order, Order(number=1, placed=NOON), {"number": 1, "placed": "2026-11-26T12:00:00Z"}),
        (Strict, Strict(within=timedelta(hours=1)), {"within": "PT1H"}),
        (Parcel, Parcel(3), {"weight": 3, "to": "Bonn"}),
        (Item, Item(Decimal("1.10")), {"price": "1.10"}),
        (datetime, NOON, "2026-11-26T12:00:00Z"),
        (Decimal, Decimal("1.10"), "1.10"),
        (dict[int, str], {1: "a"}, {"1": "a"}),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (object, {"anything": [None]}, None),
    ],
)
def test_a_value_comes_back_as_its_annotation_has_it(kind: Any, value: Any, json: Any) -> None:  # noqa: ANN401
    signature = Signature(taking(kind))

    params = signature.bind((value,), {})

    assert json is None or params == {"it": json}
    assert signature.arguments(params) == {"it": value}


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (int, "5", "it: expected `int`, got `str`"),
        (Parcel, {"weight": "x"}, "it.weight: expected `int`, got `str`"),
        (float, float("nan"), "it: Out of range float values are not JSON compliant"),
        (
            Order,
            {"number": 0},
            "it: number: Input should be greater than 0; placed: Field required",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_told_by_the_place(kind: Any, value: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(TypeError) as found:
        Signature(taking(kind)).bind((value,), {})

    assert str(found.value) == f"function(): {said}"


def test_a_call_that_cannot_be_is_told_in_the_line_that_makes_it() -> None:
    @App("shop").task
    def refresh(ctx: Context, region: str, limit: int = 1000) -> None: ...

    with pytest.raises(TypeError) as found:
        refresh.bind(limit=3)  # type: ignore[call-arg]

    assert str(found.value) == "refresh(): missing a required argument: 'region'"
    assert traceback.extract_tb(found.value.__traceback__)[0].filename == __file__
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'reigon'"):
        refresh.bind("eu", reigon="eu")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"region": 5}, "params: region: expected `str`, got `int`"),
        ({}, "params: object missing required field `region`"),
        ({"region": "eu", "old": 1}, "params: object contains unknown field `old`"),
    ],
)
def test_a_run_with_params_that_do_not_fit_fails_for_good_and_names_them(
    params: object, said: str
) -> None:
    def refresh(region: str, limit: int = 1000) -> None: ...

    with pytest.raises(PermanentError) as found:
        Signature(refresh).arguments(params)

    assert str(found.value) == f"{said}; refresh takes: region: str, limit: int = 1000"
    assert found.value.code == "PARAMS_INVALID"


def test_a_parameter_that_no_run_could_be_given_is_refused_where_the_task_is_written() -> None:
    def second(region: str, ctx: Context) -> None: ...

    for function in (lambda *args: None, lambda **kwargs: None, lambda x, /: None):  # noqa: ARG005
        with pytest.raises(TypeError, match="cannot be given by its name, as JSON needs"):
            App("shop").task(name="x")(function)
    with pytest.raises(TypeError, match="task second: a Context is the first parameter, or none"):
        App("shop").task(second)


def test_annotations_that_are_texts_are_read_where_the_function_is() -> None:
    def parcel(ctx: "Context", it: "Parcel | None" = None) -> "Unknown": ...

    signature = Signature(parcel)

    assert signature.takes_context
    assert signature.arguments(signature.bind((), {})) == {}
    assert signature.arguments(signature.bind((Parcel(1),), {})) == {"it": Parcel(1)}


def test_a_result_of_another_version_is_left_as_it_is() -> None:
    def made() -> Parcel:
        return Parcel(1)

    assert converted_result(made, {"weight": 2}) == Parcel(2)
    assert converted_result(made, {"of": "an older version"}) == {"of": "an older version"}


def test_an_annotation_for_type_checkers_alone_is_told_with_what_to_do() -> None:
    def parcel(it: "Unknown") -> None: ...

    with pytest.raises(TypeError, match=r"names Unknown, .* outside of `if TYPE_CHECKING`"):
        Signature(parcel).bind((1,), {})
