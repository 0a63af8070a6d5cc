"""What operators see, from a third process, when a worker is killed and when the broker is away."""

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import attrs
import pytest
from sqlalchemy import text

from tests.faults.arena import Arena
from tests.services import databases
from tests.services import rabbitmq as rabbitmq_service
from tests.services.finding import free_port, missing, wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

JOBS = """
[tasks.slow]
command = ["sleep", "600"]

[tasks.quick]
command = ["true"]

[schedules.slow]
task = "slow"
manual = true

[schedules.quick]
task = "quick"
every = "10s"

[notify.ops]
events = ["alert", "cleared"]
alerts = ["unsent"]
command = ["/bin/sh", "-c", "cat >> told; echo >> told"]
"""
WORKER = ("worker", "--jobs", "seen.toml", "--concurrency", "2")

#: Seconds after a kill in which it is to be seen: 10, and three times as many beside other tests.
SOON = 30.0


@attrs.define
class Scene:
    """Two schedulers and two workers, and the page and API in a third process."""

    arena: Arena
    broker: RabbitMQ
    web: int
    probes: tuple[int, ...]
    everybody: Mapping[str, list[subprocess.Popen[bytes]]]

    def get(self, path: str, *, port: int | None = None) -> tuple[int, Any]:
        link = HTTPConnection("127.0.0.1", port or self.web, timeout=10)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            link.close()

    def health(self) -> set[int]:
        return {self.get("/healthz", port=port)[0] for port in self.probes}

    def readiness(self) -> set[int]:
        return {self.get("/readyz", port=port)[0] for port in self.probes}

    def told(self) -> list[dict[str, Any]]:
        path = self.arena.folder / "told"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.strip()]


@pytest.fixture
def scene(rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path) -> Iterator[Scene]:
    if not rabbitmq.is_ours:
        missing("RabbitMQ that may be stopped", rabbitmq_service.HURT)
    web, scheduler_probe, web_probe = free_port(), free_port(), free_port()
    with rabbitmq.vhost() as broker_url, databases.database(mariadb) as url:
        arena = Arena(
            tmp_path,
            1,
            CRON_DATABASE_URL=url.render_as_string(hide_password=False),
            CRON_BROKER_URL=broker_url,
            CRON_REFRESH_SECONDS="1",
        )
        (tmp_path / "seen.toml").write_text(JOBS)
        assert arena.start("apply", "seen.toml").wait(timeout=90) == 0
        everybody = {
            "schedulers": [
                arena.start("scheduler", CRON_PROBE_ADDRESS=f"127.0.0.1:{scheduler_probe}"),
                arena.start("scheduler"),
            ],
            "workers": [arena.start(*WORKER), arena.start(*WORKER)],
            "web": [
                arena.start(
                    *("web", "--jobs", "seen.toml"),
                    CRON_WEB_ADDRESS=f"127.0.0.1:{web}",
                    CRON_PROBE_ADDRESS=f"127.0.0.1:{web_probe}",
                )
            ],
        }
        scene = Scene(arena, rabbitmq, web, (scheduler_probe, web_probe), everybody)
        try:
            wait_until(lambda: _are_there(scene), seconds=60, what="all of them")
            yield scene
        finally:
            processes = [each for group in everybody.values() for each in group]
            for process in processes:
                process.kill()
                process.wait()
            arena.engine.dispose()


def _are_there(scene: Scene) -> bool:
    try:
        _, found = scene.get("/nodes")
        roles = Counter(node["role"] for node in found["nodes"])
        ready = scene.readiness()
    except OSError:
        return False
    return (roles["scheduler"], roles["worker"], ready) == (2, 2, {200})


def test_who_was_killed_and_what_it_ran_is_seen_within_ten_seconds(scene: Scene) -> None:
    asked = [scene.arena.start("run", "slow") for _ in range(4)]
    assert [each.wait(timeout=60) for each in asked] == [0] * 4
    running = "/executions?state=running"
    wait_until(lambda: len(_slow(scene.get(running)[1])) == 4, seconds=60, what="all four to run")
    [victim, _] = scene.everybody["workers"]
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    killed_at = time.monotonic()

    wait_until(lambda: _silent(scene), seconds=SOON, what="its silence")
    seen_after = time.monotonic() - killed_at

    _, found = scene.get("/nodes")
    [silent] = [node["name"] for node in found["nodes"] if node["silent"]]
    assert f"-{victim.pid}-" in silent
    left = {(run["node"], run["schedule_name"]) for run in found["left_runs"]}
    assert left == {(silent, "slow")}
    print(f"seen after {seen_after:.1f} s, {len(found['left_runs'])} runs named")


@pytest.mark.long
def test_a_broker_that_stays_away_alerts_once_and_the_alert_clears(scene: Scene) -> None:
    scene.broker.stop()
    try:
        wait_until(lambda: bool(scene.told()), seconds=300, what="the alert")
        for _ in range(2):  # by whichever process, and then time to tell of it
            last = _judged_at(scene)
            wait_until(
                partial(lambda last: _judged_at(scene) != last, last),
                seconds=150,
                what="another round of judging",
            )
        raised = scene.told()
        assert scene.health() == {200}
    finally:
        scene.broker.start()
    wait_until(lambda: len(scene.told()) > 1, seconds=600, what="its end")

    kinds = [each["type"] for each in scene.told()]
    assert len(raised) == 1
    assert kinds == ["alert", "alert.cleared"]


def _slow(found: Any) -> list[Any]:  # noqa: ANN401 - what was answered
    rows = found["executions"] if isinstance(found, dict) else found
    return [row for row in rows if row["schedule_name"] == "slow"]


def _judged_at(scene: Scene) -> object:
    with scene.arena.engine.connect() as connection:
        return connection.scalar(text("SELECT ended_at FROM AlertJudgement WHERE source = ''"))


def _silent(scene: Scene) -> bool:
    return any(node["silent"] for node in scene.get("/nodes")[1]["nodes"])
