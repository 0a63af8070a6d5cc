"""docs/api.md says what the API does: its table is made from the operations."""

import re
import runpy
from pathlib import Path

from cronhare.entrypoints.web import reading

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "scripts" / "api_operations.py"))
PAGE = MADE["PAGE"].read_text(encoding="utf-8")


def test_the_table_of_operations_is_made_from_the_code() -> None:
    assert PAGE.count("\n| `") > 40
    assert MADE["page"]() == PAGE, "run: python -m scripts.api_operations"


def test_each_path_in_the_examples_is_an_operations() -> None:
    shown = re.findall(r"\$API(/[^\s'\"?]*)", PAGE)
    patterns = [
        re.compile(re.sub(r"\{\w+\}", "[^/]+", each.path_format)) for each in MADE["operations"]()
    ]

    assert len(shown) > 10
    strange = [path for path in shown if not any(one.fullmatch(path) for one in patterns)]
    assert set(strange) <= {"/openapi.json"}


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"{reading.ROWS} unless `limit` says otherwise, {reading.MOST_ROWS:,}" in PAGE
