"""docs/bounds.md says what the code holds: each number on the page is that of a constant."""

import pkgutil
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import cronhare

PAGE = Path(__file__).parents[2] / "docs" / "bounds.md"

#: What a number on the page may be counted in: seconds, bytes, milliseconds.
UNITS = (1, 60, 3_600, 86_400, 365 * 86_400, 1_000, 60_000, 3_600_000, 86_400_000, 2**10, 2**20)

#: Said on the page of what has no constant: a power, a standard, a year.
OTHERS = {2, 8601, 9999}


def constants() -> Iterator[float]:
    for found in pkgutil.walk_packages(cronhare.__path__, "cronhare."):
        if found.name.endswith(("__main__", ".vfork", ".env")) or ".django" in found.name:
            continue
        for name, value in vars(import_module(found.name)).items():
            if name.isupper():
                for each in value if isinstance(value, tuple) else (value,):
                    match each:
                        case range():
                            yield from (each[0], each[-1])
                        case timedelta():
                            yield each.total_seconds()
                        case int() | float():
                            yield each


@cache
def sayable() -> frozenset[float]:
    found = {each for each in constants() if each == each and abs(each) < float("inf")}  # noqa: PLR0124
    scaled = {each / unit for each in found for unit in UNITS}
    exponents = {int(each).bit_length() for each in found}
    return frozenset(scaled | exponents | {each + 1 for each in exponents})


def rows() -> dict[str, str]:
    table = re.findall(r"^\| (.+?) \| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    return dict(table[2:])


@pytest.mark.parametrize("bound", rows())
def test_each_number_of_a_bound_is_that_of_a_constant(bound: str) -> None:
    said = {
        float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", rows()[bound])
    }

    assert said - sayable() - OTHERS == set()
