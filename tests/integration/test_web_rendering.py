"""Answers are made in threads: a long one keeps nobody else waiting."""

import threading
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from shutil import copyfile
from typing import Any

import pytest

from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from tests.integration.web import Site, site

TASK = Task(name="tokens", ref=TaskRef("report", 25), command=("true",))
LISTS = ("/schedulers", "/executions", "/executions/1", "/quarantine", "/queues")
VIEWS = ("queues", "schedules", "alerts", "audit")
WEB = "cronhare.entrypoints.web"


@pytest.fixture(scope="module")
def web(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("web")
    copyfile(migrated_sqlite, folder / "ledger.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRON_DATABASE_URL", f"sqlite:///{folder}/ledger.db")
        container = Container(settings=Settings.read(), tasks=[TASK])
    with site(container) as found:
        params = {"a": "\u202e" * 1_000}
        new = {"schedule": "0 8 * * *", "report_id": 25, "params": params}
        id_ = found.post("/schedulers", new).json()["id"]
        assert found.post(f"/schedulers/{id_}/run", {}).json()["id"] == 1
        yield found


@pytest.mark.parametrize(
    ("path", "where"),
    [
        *((path, f"{WEB}.operations.as_json") for path in LISTS),
        ("/executions/1/output", f"{WEB}.api.executions.printable"),
        *((f"/ui/{view}", f"{WEB}.page.rendering.Renderer.page") for view in VIEWS),
    ],
)
def test_answers_are_made_in_threads_while_the_loop_goes_on(
    web: Site, monkeypatch: pytest.MonkeyPatch, path: str, where: str
) -> None:
    makers, make = list[str](), resolve_name(where)

    def noted(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it makes
        makers.append(threading.current_thread().name)
        return make(*given, **named)

    monkeypatch.setattr(where, noted)
    answer = web.get(path)

    assert answer.status == 200
    assert "\u202e" not in answer.text
    assert makers
    assert all(name.startswith("web_") for name in makers)
