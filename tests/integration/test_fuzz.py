"""Every boundary with the worst of its inputs, beside the innocent; `make fuzz` tries them all."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import attrs
import pytest

from tests.fuzz.corpus import Place
from tests.fuzz.trying import Choice, attempt, boundaries
from tests.services import mariadb as mariadb_service
from tests.services import rabbitmq as rabbitmq_service

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`


@attrs.frozen
class Ground:
    """A folder, and the servers of the session, started when they are first asked for."""

    folder: Path
    request: pytest.FixtureRequest

    @property
    def broker(self) -> rabbitmq_service.Server:
        server: rabbitmq_service.Server = self.request.getfixturevalue("rabbitmq")
        return server

    @property
    def database(self) -> mariadb_service.Server:
        server: mariadb_service.Server = self.request.getfixturevalue("mariadb")
        return server


def test_nothing_from_outside_is_mishandled(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    numbers = count(1)

    @contextmanager
    def place() -> Iterator[Place]:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        yield Ground(folder, request)

    figures = attempt(boundaries(), Choice(short=True), place, tell=print)

    assert figures
    assert {each.boundary: each.mishandled for each in figures if each.mishandled} == {}
