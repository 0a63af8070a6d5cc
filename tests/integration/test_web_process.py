"""`cronhare web` as a process beside those that work: the one machine, and production."""

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.asking import AT_A_TIME
from tests.integration.shell import PROGRAM, Shell, clean_environment
from tests.integration.test_up import Starter, start
from tests.integration.web import Site, site
from tests.production.plant import PATIENCE, SCHEDULER, Plant, plant
from tests.services.finding import free_port, wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

__all__ = ["start"]  # a fixture

JOBS = """
[tasks.refresh-user-token]
type = "report"
id = 25
command = ["cat"]

[schedules.yearly]
task = "refresh-user-token"
schedule = "@yearly"
"""

REPORT = {"controller": "RefreshUserToken", "options_interface": {"delivery": {"instant": True}}}


def answers(site: Site) -> bool:
    try:
        return site.get("/openapi.json").status == 200
    except OSError:
        return False


@pytest.fixture
def one_machine(start: Starter, tmp_path: Path) -> Iterator[tuple[Site, "subprocess.Popen[bytes]"]]:
    """`cronhare up`, and `cronhare web` on its ledger."""
    jobs = tmp_path / "jobs.toml"
    jobs.write_text(JOBS)
    start(jobs).until("Running")
    site = Site(free_port())
    with (tmp_path / "web.log").open("wb") as log:
        web = subprocess.Popen(
            [PROGRAM, "web", "--jobs", str(jobs)],
            cwd=tmp_path,
            env=clean_environment() | {"CRON_WEB_ADDRESS": f"127.0.0.1:{site.port}"},
            stderr=log,
        )
    try:
        wait_until(lambda: answers(site), seconds=PATIENCE, what="the first answer")
        yield site, web
    finally:
        web.kill()
        web.wait()


def test_beside_up_a_report_runs_a_schedule_is_planned_and_signals_are_answered(
    one_machine: tuple[Site, "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    site, web = one_machine
    run = site.post("/reports/generate", REPORT).json()["id"]
    made = site.post("/schedulers", {"schedule": "0 8 * * *", "report_id": 25}).json()["id"]
    shell = Shell(tmp_path)

    def state() -> str:
        shown = shell("executions", "show", str(run), "--json").json()
        return str(shown["execution"]["state"])

    wait_until(lambda: state() == "succeeded", seconds=PATIENCE, every=0.5, what="the run's end")
    assert '"instant":true' in shell("executions", "logs", str(run)).out
    wait_until(
        lambda: site.get(f"/schedulers/{made}").json()["next_due_at"], seconds=PATIENCE, what="plan"
    )

    (tmp_path / "jobs.toml").write_text(JOBS.replace("id = 25", "id = 26"))
    web.send_signal(signal.SIGHUP)
    other = {"schedule": "0 8 * * *", "report_id": 26}
    wait_until(
        lambda: site.post("/schedulers", other, key="k").status == 201,
        seconds=PATIENCE,
        what="the reload",
    )
    held = socket.create_connection(("127.0.0.1", site.port))  # nor does who asks nothing delay it
    with held:
        web.send_signal(signal.SIGTERM)
        assert web.wait(timeout=20) == 0
    log = (tmp_path / "web.log").read_text()
    assert "[INFO] [client=127.0.0.1, duration=" in log
    assert "POST /reports/generate: 202" in log
    assert log.rstrip().endswith("Shutdown complete")


def test_in_production_what_is_asked_for_here_runs_on_a_worker(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    with plant(tmp_path, rabbitmq, mariadb, JOBS, CRON_REFRESH_SECONDS="1") as plant_:
        site = Site(free_port())
        address = f"127.0.0.1:{site.port}"
        plant_.start("web", "--jobs", "jobs.toml", CRON_WEB_ADDRESS=address)
        plant_.start(*SCHEDULER)
        plant_.start_worker()
        wait_until(lambda: answers(site), seconds=PATIENCE, what="the first answer")

        run = site.post("/reports/generate", REPORT, key="once").json()["id"]
        made = site.post("/schedulers", {"schedule": "0 8 * * *", "report_id": 25}).json()["id"]

        wait_until(
            lambda: states(plant_, run) == [("succeeded",)], seconds=PATIENCE, what="the end"
        )
        wait_until(
            lambda: site.get(f"/schedulers/{made}").json()["next_due_at"],
            seconds=PATIENCE,
            what="the plan",
        )
        assert site.post("/reports/generate", REPORT, key="once").json()["state"] == "succeeded"
        plant_.stop()
        requests = [line["message"] for line in plant_.lines("web.request")]
    assert requests.count("POST /reports/generate: 202") == 2


def states(at_work: Plant, execution: int) -> list[tuple[Any, ...]]:
    return at_work.query(f"SELECT state FROM SchedulerExecution WHERE id = {execution}")


def test_up_answers_itself_says_where_and_ends_at_once(start: Starter, tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)
    site = Site(free_port())
    address = f"127.0.0.1:{site.port}"
    up = start(tmp_path / "jobs.toml", web="--web", CRON_WEB_ADDRESS=address)

    up.until(f"Page and API at http://{address}")
    run = site.post("/reports/generate", REPORT).json()["id"]
    page = site.get("/").status

    def state() -> str:
        return str(site.get(f"/executions/{run}").json()["execution"]["state"])

    wait_until(lambda: state() == "succeeded", seconds=PATIENCE, what="the run's end")
    assert (page, '"instant":true' in site.get(f"/executions/{run}/output").text) == (200, True)
    began = time.monotonic()
    assert up.end() == 0
    assert time.monotonic() - began < 5
    assert up.log.rstrip().endswith("Shutdown complete")


def test_up_works_on_where_another_has_its_address(start: Starter, tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(
        JOBS.replace("[schedules.yearly]", "[schedules.yearly]\non_start = true")
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        up = start(tmp_path / "jobs.toml", web="--web", CRON_WEB_ADDRESS=address)

        up.until("Task completed successfully")
        log = up.until("No API and no page")

    [warning] = [line for line in log.splitlines() if "WARN" in line]
    assert f"CRON_WEB_ADDRESS: {address}: Address already in use; name another one" in warning
    assert "--no-web" in warning
    assert up.end() == 0


def test_an_address_that_somebody_has_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = Shell(tmp_path)("web", "--jobs", "jobs.toml", CRON_WEB_ADDRESS=address)

    assert (said.status, f"{address}: Address already in use" in said.err) == (2, True)


def test_without_a_jobs_file_there_is_nothing_to_ask_for(tmp_path: Path) -> None:
    said = Shell(tmp_path)("web")

    assert (said.status, "no jobs file is named" in said.err) == (2, True)
    assert "nothing could be created" in said.err


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
