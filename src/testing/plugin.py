"""The plugin for pytest: the fixture `cronhare`, and where its app is."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cronhare.entrypoints.python.app import App

    from .system import Cronhare

_OPTION = "cronhare_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_OPTION, "the app that the fixture `cronhare` tests, such as shop.jobs:app")


@pytest.fixture
def cronhare(request: pytest.FixtureRequest) -> "Iterator[Cronhare]":
    """Your app's schedules and tasks on a frozen clock: no server, no process, no sleep."""
    from .ledger import template  # noqa: PLC0415 - most tests need nothing of it
    from .system import Cronhare  # noqa: PLC0415 - likewise

    template()  # here, and not within the time of whichever test comes first
    with Cronhare(lambda: find_app(request.config)) as system:
        yield system


def find_app(config: pytest.Config) -> "App":
    """Find the app that the configuration names, or else the only one."""
    from cronhare.entrypoints.python.app import APPS  # noqa: PLC0415 - see cronhare
    from cronhare.entrypoints.python.loading import load  # noqa: PLC0415 - likewise

    if place := config.getini(_OPTION):
        return load(place)
    apps = sorted(APPS, key=lambda each: each.name)
    if len(apps) == 1:
        return apps[0]
    there = ", ".join(each.name for each in apps)
    found = f"there are several apps: {there}" if apps else "no app has been imported"
    raise pytest.UsageError(
        f"{found}; say which one is meant, by cronhare.start(…, app=…), or for all tests by "
        f"{_OPTION} = shop.jobs:app in pytest's configuration"
    )
