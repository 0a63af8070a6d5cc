"""API, page and probes of real processes: what they answer, and which metrics move."""

import http.client
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import make_url

from cronhare.adapters.sql.schedules import SqlScheduleStore
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.asking import AT_A_TIME
from tests.integration.shell import Shell
from tests.integration.test_up import Starter, start
from tests.integration.web import Site, site
from tests.production.plant import PATIENCE, SCHEDULER, plant
from tests.services.finding import free_port, wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.promtool import promtool
from tests.services.proxy import proxy_in_thread
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


def test_beside_up_a_report_runs_a_schedule_is_planned_and_signals_are_answered(
    start: Starter, tmp_path: Path
) -> None:
    jobs, site = tmp_path / "jobs.toml", Site(free_port())
    jobs.write_text(JOBS)
    start(jobs).until("Running")
    web = start(jobs, command="web", CRON_WEB_ADDRESS=f"127.0.0.1:{site.port}")
    wait_until(lambda: answers(site), seconds=PATIENCE, what="the first answer")
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

    jobs.write_text(JOBS.replace("id = 25", "id = 26"))
    web.process.send_signal(signal.SIGHUP)
    other = {"schedule": "0 8 * * *", "report_id": 26}
    wait_until(
        lambda: site.post("/schedulers", other, key="k").status == 201,
        seconds=PATIENCE,
        what="the reload",
    )
    held = socket.create_connection(("127.0.0.1", site.port))  # nor does who asks nothing delay it
    with held:
        web.process.send_signal(signal.SIGTERM)
        assert web.process.wait(timeout=20) == 0
    assert "[INFO] [client=127.0.0.1, duration=" in web.log
    assert "POST /reports/generate: 202" in web.log
    assert web.log.rstrip().endswith("Shutdown complete")


SLOW = """
[tasks.slow]
command = ["sleep", "600"]

[schedules.slow]
task = "slow"
manual = true
"""


def test_who_was_killed_and_what_it_ran_is_seen_within_ten_seconds(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    site = Site(free_port())
    with plant(tmp_path, rabbitmq, mariadb, SLOW) as built:
        built.start(*SCHEDULER)
        victim, _ = (built.start_worker(concurrency=2) for _ in range(2))
        built.wait_until_all_work(workers=2)
        built.start("web", "--jobs", "jobs.toml", CRON_WEB_ADDRESS=f"127.0.0.1:{site.port}")
        wait_until(lambda: answers(site), seconds=PATIENCE, what="the first answer")
        for _ in range(4):
            built.arena.ask_for_runs(of=["slow"])
        wait_until(
            lambda: len(site.get("/executions?state=running").json()) == 4,
            seconds=PATIENCE,
            what="all four to run",
        )
        victim.kill()
        victim.wait()

        def silent() -> list[str]:
            return [each["name"] for each in site.get("/nodes").json()["nodes"] if each["silent"]]

        # Three times as many seconds: other tests keep the machine busy.
        wait_until(lambda: bool(silent()), seconds=30, what="its silence")
        [name] = silent()
        left = site.get("/nodes").json()["left_runs"]

    assert f"-{victim.pid}-" in name
    assert {(run["node"], run["schedule_name"]) for run in left} == {(name, "slow")}


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


@pytest.mark.parametrize(
    ("command", "setting"), [("web", "CRON_WEB_ADDRESS"), ("up", "CRON_PROBE_ADDRESS")]
)
def test_an_address_that_somebody_has_is_refused(
    command: str, setting: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = Shell(tmp_path)(command, "--jobs", "jobs.toml", **{setting: address})

    assert said.status == 2
    assert f"{setting}: {address}: Address already in use" in said.err


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


TWO_TASKS = """
[tasks.good]
command = ["true"]

[tasks.bad]
command = ["false"]
retry = { attempts = 1 }

[schedules.good]
task = "good"
every = "1s"

[schedules.bad]
task = "bad"
every = "2s"
"""

WORKER = ("worker", "--jobs", "jobs.toml")


@attrs.frozen
class Probed:
    port: int = attrs.field(factory=free_port)

    @property
    def settings(self) -> Mapping[str, str]:
        return {"CRON_PROBE_ADDRESS": f"127.0.0.1:{self.port}"}

    def ask(self, path: str) -> tuple[int, str]:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            link.close()

    def faults(self) -> list[Any]:
        status, body = self.ask("/readyz")
        faults: list[Any] = json.loads(body)["faults"] if body else ["no answer"]
        assert (status == 200) == (not faults)
        return faults

    def metrics(self) -> dict[tuple[str, ...], float]:
        return {
            (one.name, *one.labels.values()): one.value
            for family in text_string_to_metric_families(self.ask("/metrics")[1])
            for one in family.samples
        }

    def until_ready(self) -> None:
        wait_until(lambda: not self.faults(), seconds=PATIENCE, every=0.2, what="readiness")


def test_what_runs_on_one_machine_is_counted_as_prometheus_wants_it(
    start: Starter, tmp_path: Path
) -> None:
    jobs, probed = tmp_path / "jobs.toml", Probed()
    jobs.write_text(TWO_TASKS)
    up = start(jobs, **probed.settings)
    probed.until_ready()
    key = ("job_queue_dlq_depth",)
    wait_until(lambda: probed.metrics().get(key, 0) > 0, seconds=PATIENCE, every=0.5, what="count")

    status, said = promtool("check", "metrics", stdin=probed.ask("/metrics")[1])
    assert (status, said) == (0, "")
    found = probed.metrics()
    assert found["cronhare_attempts_total", "succeeded"] >= 1
    assert found["cronhare_executions_total", "failed"] >= 1
    assert found["cronhare_lateness_seconds_count", "started"] >= 2
    assert found["cronhare_schedule_last_success_timestamp_seconds", "good"] > 1e9
    assert found["cronhare_schedule_last_failure_timestamp_seconds", "bad"] > 1e9
    assert found["cronhare_nodes", "up", "alive"] == 1
    assert found["cronhare_worker_slots",] == 8
    assert probed.ask("/healthz")[0] == 200
    assert up.end() == 0


def test_a_broker_that_is_away_ends_readiness_and_no_process(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    scheduler, worker = Probed(), Probed()
    with plant(tmp_path, rabbitmq, mariadb, TWO_TASKS) as at_work:
        url = make_url(at_work.broker_url)
        with proxy_in_thread(url.port or 5672) as (port, link):
            behind = {"CRON_BROKER_URL": url.set(port=port).render_as_string(hide_password=False)}
            at_work.start(*SCHEDULER, **behind, **scheduler.settings)
            at_work.start(*WORKER, **behind, **worker.settings)
            for process in (scheduler, worker):
                process.until_ready()
            started = ("cronhare_attempts_started_total",)
            wait_until(
                lambda: worker.metrics()[started] > 0, seconds=PATIENCE, every=0.2, what="a start"
            )

            link.freeze()
            link.cut()
            for process, what in ((scheduler, "broker"), (worker, "consumer")):
                gone = [f"{what} was not proven within 30 s"]
                wait_until(
                    lambda process=process, gone=gone: process.faults() == gone,  # type: ignore[misc]
                    seconds=PATIENCE,
                    every=0.5,
                    what=f"the loss of the {what}",
                )
                assert process.ask("/healthz")[0] == 200
                up = process.metrics()
                assert up["cronhare_connection_up", what] == 0
                assert up["cronhare_connection_up", "ledger"] == 1
            assert scheduler.metrics()[
                "cronhare_executions_unfinished", "cron_scheduler", "claimed"
            ]

            link.thaw()
            before = worker.metrics()[started]
            for process in (scheduler, worker):
                process.until_ready()
            wait_until(
                lambda: worker.metrics()[started] > before,
                seconds=PATIENCE,
                every=0.5,
                what="a start once it is back",
            )
        at_work.stop()
