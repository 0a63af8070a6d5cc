"""The probes beside the page answer though the ledger, and with it the page, does not."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.asking import AT_A_TIME
from tests.integration.web import Site, site

pytestmark = pytest.mark.integration


@contextmanager
def hanging(container: Container, web: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the ledger give no answer, to more requests than may ask it at a time."""
    answers = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        answers.wait(30)
        return []

    monkeypatch.setattr(SqlScheduleStore, "schedules", hang)
    monkeypatch.setattr(container.vitals().proofs, "refresh", hang)
    with ThreadPoolExecutor(AT_A_TIME + 2) as asking:
        for _ in range(AT_A_TIME + 2):
            asking.submit(web.get, "/schedulers")
        time.sleep(0.5)
        try:
            yield
        finally:
            answers.set()


def test_the_probes_answer_while_the_ledger_hangs(
    monkeypatch: pytest.MonkeyPatch, on_sqlite: Settings
) -> None:
    container = Container(settings=on_sqlite)
    with site(container) as web:
        assert web.get("/readyz").status == 200
        with hanging(container, web, monkeypatch):
            began = time.monotonic()
            answers = [web.get(path).status for path in ("/readyz", "/readyz", "/healthz")]
            took = time.monotonic() - began

    assert answers == [200, 200, 200]  # proven half a minute ago at most
    assert took < 5
