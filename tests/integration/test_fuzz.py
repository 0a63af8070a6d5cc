"""Every boundary with the worst of its inputs, beside the innocent; `make fuzz` tries them all."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.fuzz.corpus import Place
from tests.fuzz.trying import Choice, attempt, boundaries

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`


def test_nothing_from_outside_is_mishandled(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    numbers = count(1)

    @contextmanager
    def place() -> Iterator[Place]:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        yield Place(
            folder,
            lambda: request.getfixturevalue("rabbitmq"),
            lambda: request.getfixturevalue("mariadb"),
        )

    figures = attempt(boundaries(), Choice(short=True), place, tell=print)

    assert figures
    assert {each.boundary: each.mishandled for each in figures if each.mishandled} == {}
