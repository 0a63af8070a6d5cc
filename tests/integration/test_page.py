"""The page's frame, asked over real sockets."""

import re
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import pytest

from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.page.navigation import WAYS
from tests.integration.web import Site, site


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, migrated_sqlite: Path) -> Container:
    copyfile(migrated_sqlite, tmp_path / "ledger.db")
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{tmp_path}/ledger.db")
    return Container(settings=Settings.read())


@pytest.fixture
def web(container: Container) -> Iterator[Site]:
    with site(container) as found:
        yield found


def test_every_view_is_there_in_an_empty_ledger_and_loads_nothing_from_elsewhere(web: Site) -> None:
    for way in WAYS:
        found = web.get(way.path)

        assert found.status == 200, way
        assert found.headers["cache-control"] == "no-store"
        assert "default-src 'none'; script-src 'self'" in found.headers["content-security-policy"]
        assert not re.search(r"style=|<style|\son\w+=|<script>|https?://", found.text), way
        assert 'aria-current="page"' in found.text


def test_files_are_kept_for_ever_under_an_address_that_says_what_they_hold(web: Site) -> None:
    found = set(re.findall(r"/ui/static/\w+/[\w.]+", web.get("/").text))
    assert len(found) == 4

    for address in found:
        kept = web.get(address)
        assert (kept.status, kept.headers["x-content-type-options"]) == (200, "nosniff")
        assert "immutable" in kept.headers["cache-control"]
    assert web.get("/ui/static/000000000000/page.css").status == 404
    assert web.get("/ui/static/../pages.py").status == 404


def test_what_is_not_there_is_told_as_a_page(web: Site) -> None:
    found = web.get("/ui/<script>alert(1)</script>")

    assert found.status == 404
    assert found.headers["content-type"].startswith("text/html")
    assert "There is no page at this address." in found.text
    assert "<script>" not in found.text
