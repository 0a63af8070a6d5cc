"""A run in a transaction of Django's, in a process of its own: Django is set up but once."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from cronhare.entrypoints.settings.settings import Settings

PROGRAM = textwrap.dedent("""
    import json, sys
    import django
    from django.conf import settings
    database, ledger, elsewhere = json.loads(sys.argv[1])
    settings.configure(DATABASES={"default": database, "other": elsewhere}, USE_TZ=True)
    django.setup()
    from django.db import transaction
    from cronhare import App
    from cronhare.entrypoints.python.client import client_of
    from cronhare.ports.claims import OtherDatabase

    app = App("shop", ledger=ledger)
    @app.task
    def send(order: int) -> None: ...

    rung = []
    bell = client_of(app).container.background_bell()
    bell.ring_once_there = lambda ids: rung.extend(ids)
    with transaction.atomic():
        kept = send.bind(order=7).enqueue(key="mail:7", delay="1h", on="default")
        assert send.bind(order=7).enqueue(key="mail:7", on="default").id == kept.id
        assert not rung
    assert kept.state() == "claimed"
    assert rung == [kept.id]
    try:
        with transaction.atomic():
            lost = send.bind(order=8).enqueue(on="default")
            raise KeyError
    except KeyError:
        pass
    try:
        lost.state()
    except LookupError:
        print("rolled back")
    assert rung == [kept.id]
    try:
        send.bind(order=9).enqueue(on="other")
    except OtherDatabase as error:
        print(error)
""")


def ask(database: dict[str, Any], ledger: str, elsewhere: Path) -> str:
    other = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(elsewhere)}
    asked = json.dumps([database, ledger, other])
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, asked],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not ended.returncode, ended.stderr
    return ended.stdout


def test_a_run_commits_with_djangos_rows_on_sqlite(on_sqlite: Settings, tmp_path: Path) -> None:
    pytest.importorskip("django")
    path = tmp_path / "ledger.db"
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}

    said = ask(database, on_sqlite.database_url, tmp_path / "other.db")

    assert said.splitlines()[0] == "rolled back"
    assert f"on= leads to the file {tmp_path}/other.db, and the ledger is in the file" in said


@pytest.mark.integration
def test_a_run_commits_with_djangos_rows_on_postgresql(
    migrated_postgresql: URL, tmp_path: Path
) -> None:
    pytest.importorskip("django")
    url = migrated_postgresql
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.database,
        "USER": url.username,
        "PASSWORD": url.password,
        "HOST": url.host or url.query.get("host"),
        "PORT": str(url.port or url.query.get("port") or ""),
    }

    said = ask(database, url.render_as_string(hide_password=False), tmp_path / "other.db")

    assert said.splitlines()[0] == "rolled back"
    assert "and the ledger is in the PostgreSQL database" in said
