"""Every boundary with the worst of its inputs, beside the innocent; `make fuzz` tries them all."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import attrs
import pytest

from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
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


class Fragile:
    """A site that an entry can break."""

    broken = False

    def innocent(self) -> None:
        if self.broken:
            raise Mishandled("the innocent waits")


def test_whoever_makes_the_innocent_wait_is_mishandled_and_the_next_finds_a_site_anew(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    opened: list[Fragile] = []

    @contextmanager
    def fragile(_: Place) -> Iterator[Fragile]:
        opened.append(Fragile())
        yield opened[-1]

    @contextmanager
    def place() -> Iterator[Place]:
        yield Ground(tmp_path, request)

    def break_it(site: Fragile) -> Answer:
        site.broken = True
        return Answer.HANDLED

    def stumble(_: Fragile) -> Answer:
        raise ValueError("an entry of ours")

    boundary = Boundary(
        name="fragile",
        at=fragile,
        entries=[
            Entry("well", lambda _: Answer.REFUSED),
            Entry("broken", break_it),
            Entry("stumbles", stumble),
            Entry("well again", lambda _: Answer.HANDLED),
        ],
    )
    said: list[str] = []
    [figures] = attempt([boundary], Choice(), place, tell=said.append)

    assert [name for name, _ in figures.mishandled] == ["broken", "stumbles"]
    assert "ValueError: an entry of ours" in figures.mishandled[1][1]
    assert said[-1] == "fragile: tried 4, handled 1, refused 1, mishandled 2"
    assert len(opened) == 3
