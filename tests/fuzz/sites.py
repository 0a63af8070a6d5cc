"""A site over HTTP with a ledger of its own, at which strangers try what they like."""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs

from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.schedules.task import Task
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web import server
from tests.fuzz.corpus import Mishandled
from tests.integration.web import Site, site

#: Seconds in which the innocent is answered, however busy the machine.
PATIENCE = 10.0


@attrs.frozen
class Served:
    """The site, and the ledger behind it."""

    site: Site
    ledger: Path
    container: Container

    def in_time(self, ask: Callable[[], object], expected: object) -> None:
        """Have the innocent ask; then the ledger must be whole."""
        began = time.monotonic()
        answered = ask()
        spent = time.monotonic() - began
        if answered != expected or spent > PATIENCE:
            raise Mishandled(f"the innocent is answered {answered} after {spent:.1f} s")
        if (whole := self.query("PRAGMA quick_check")) != [("ok",)]:
            raise Mishandled(f"the ledger is not as it should be: {whole}")

    def query(self, text: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.ledger)) as ledger:
            return ledger.execute(text).fetchall()


@contextmanager
def served(folder: Path, tasks: Sequence[Task] = (), **changed: Any) -> Iterator[Served]:  # noqa: ANN401
    """Open the site, with *changed* settings; it sends away soon who does not end a request."""
    path = folder / "ledger.db"
    settings = attrs.evolve(Settings.read(), database_url=f"sqlite:///{path}", **changed)
    container = Container(settings=settings, tasks=tasks)
    upgrade(container.engine())
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # as `logs.configure` does
    arrival, server.ARRIVAL = server.ARRIVAL, 1.0
    try:
        with site(container) as found:
            yield Served(found, path, container)
    finally:
        server.ARRIVAL = arrival
