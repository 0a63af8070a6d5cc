"""Real processes and real faults: what their probes say, and which metrics move."""

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import make_url

from tests.integration.shell import Shell
from tests.integration.test_up import Starter, start
from tests.production.plant import PATIENCE, SCHEDULER, plant
from tests.services.finding import free_port, wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.promtool import promtool
from tests.services.proxy import proxy_in_thread
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

__all__ = ["start"]  # a fixture

JOBS = """
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
    jobs.write_text(JOBS)
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


def test_an_address_that_another_has_is_refused(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write(JOBS)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        said = shell("up", "--jobs", "jobs.toml", CRON_PROBE_ADDRESS=address)

    assert said.status == 2
    assert f"CRON_PROBE_ADDRESS: {address}: Address already in use" in said.err


def test_a_broker_that_is_away_ends_readiness_and_no_process(
    rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path
) -> None:
    scheduler, worker = Probed(), Probed()
    with plant(tmp_path, rabbitmq, mariadb, JOBS) as at_work:
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
