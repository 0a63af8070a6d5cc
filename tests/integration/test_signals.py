"""SIGHUP and SIGUSR1, to real processes: what goes on, what changes, and what is told."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import termios
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cronhare.domain.execution import State
from tests.integration.shell import PROGRAM, Shell, clean_environment
from tests.integration.test_up import Starter, Up, start
from tests.production.plant import PATIENCE, Plant, Process, plant
from tests.services.finding import wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

__all__ = ["start"]  # a fixture

FIRST = """
[tasks.wait]
id = 1
command = ["/bin/sh", "-c", "echo begun; while test ! -e {go}; do sleep 0.1; done; echo ended"]

[schedules.wait]
task = "wait"
on_start = {on_start}
schedule = "0 8 29 2 *"
"""
SECOND = """
[tasks.other]
id = 2
command = ["/bin/sh", "-c", "echo I am the other"]

[schedules.other]
task = "other"
schedule = "0 8 29 2 *"
"""
FAULTY = '[tasks.wait]\nid = 0\ncommand = []\n[schedules.wait]\ntask = "wiat"\n'


def jobs(folder: Path, *, on_start: bool = False) -> str:
    return FIRST.format(go=folder / "go", on_start=str(on_start).lower())


def test_up_without_a_terminal_reloads_its_jobs_file_and_refuses_a_faulty_one(
    start: Starter, tmp_path: Path
) -> None:
    file, first = tmp_path / "jobs.toml", jobs(tmp_path, on_start=True)
    file.write_text(first)
    up = start(file)
    up.until(r"\] begun")

    file.write_text(FAULTY)
    up.process.send_signal(signal.SIGHUP)
    log = up.until(r"Nothing was reloaded.*tasks\.wait: id:.*tasks\.wait: command:.*wiat")
    assert "all goes on as before; faults: 4\n    " in log

    file.write_text(first + SECOND)
    up.process.send_signal(signal.SIGHUP)
    up.until(r"Reloaded .*jobs\.toml: new: other")
    assert Shell(tmp_path)("run", "other").status == 0
    up.until("I am the other")

    (tmp_path / "go").touch()
    assert len(re.findall(r"\] begun", up.until("ended"))) == 1, "what runs is not disturbed"
    assert up.end() == 0


def test_up_ends_what_stays_alive_at_once_and_lets_none_run_beside_it(
    start: Starter, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(
        '[tasks.pump]\ncommand = ["/bin/sh", "-c", "echo pumping; exec sleep 600"]\n'
        '[schedules.pump]\ntask = "pump"\nstay_alive = true\n'
        '[notify.ops]\nwebhook = "https://a.example"\nsecret_env = "HOOK_SECRET"\n'
        '[notify.ann]\nemail = "ann@example.org"\n'
    )
    up = start(file)
    log = up.until(r"\] pumping")
    assert re.search(r"\[ERROR\].* notify\.ops cannot be told by this process: secret_env", log)
    assert re.search(r"\[WARN\].* notify\.ann cannot be told by this process: CRON_SMTP_URL", log)

    beside = Shell(tmp_path)("run", "pump")
    assert beside.status == 2
    assert "stays alive, one run at a time, and it has execution 1;" in beside.err

    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(timeout=20) == 0  # the grace is 30 s


def on_terminal(folder: Path, file: Path, *prefix: str) -> tuple[Up, int]:
    master, slave = pty.openpty()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*prefix, PROGRAM, "up", "--no-web", "--jobs", str(file)],
            cwd=folder,
            env=clean_environment(),
            stdin=slave,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads
        )
    os.close(slave)
    return Up(folder, process), master


def test_up_ends_in_good_order_when_its_terminal_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(jobs(tmp_path, on_start=True))
    up, terminal = on_terminal(tmp_path, file)
    try:
        up.until(r"\] begun")
        os.close(terminal)
        up.until("SIGHUP received, shutting down gracefully")
        up.process.send_signal(signal.SIGHUP)  # a shell says so as well
        (tmp_path / "go").touch()
        assert up.process.wait(timeout=60) == 0
    finally:
        up.process.kill()

    assert "Task completed successfully" in up.log
    assert "again, ending what runs" not in up.log


def test_up_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(jobs(tmp_path, on_start=True))
    up, terminal = on_terminal(tmp_path, file, "nohup")
    try:
        up.until(r"\] begun")
        up.until("SIGHUP is ignored, as under nohup: what changes needs a restart")
        os.close(terminal)
        (tmp_path / "go").touch()
        up.until("Task completed successfully")
        assert up.end() == 0
    finally:
        up.process.kill()


def test_up_tells_its_state(start: Starter, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(jobs(tmp_path, on_start=True))
    up = start(file)
    up.until(r"\] begun")

    up.process.send_signal(signal.SIGUSR1)
    log = up.until("Servers: all answer")

    assert re.search(r"Node \S+, running for \d+ s", log)
    assert re.search(r"Scheduler: looked for edits at .*, due next: ", log)
    assert re.search(r"\[succeeded=0, .*\] Worker: 1 of 8 at hand", log)
    assert re.search(r"\[execution=\d+, attempt=1, node=\S+\] Runs, and its lease was renewed", log)
    (tmp_path / "go").touch()
    assert up.end() == 0


@pytest.fixture
def house(rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path) -> Iterator[Plant]:
    (tmp_path / "settings.toml").write_text('log_level = "INFO"\n')
    settings = {"CRON_CONFIG": str(tmp_path / "settings.toml")}
    with plant(tmp_path, rabbitmq, mariadb, jobs(tmp_path), **settings) as house:
        yield house


def told(house: Plant, action: str, text: str) -> bool:
    return any(text in line["message"] for line in house.lines(action))


def wait_for(house: Plant, action: str, text: str) -> None:
    wait_until(partial(told, house, action, text), seconds=PATIENCE, every=0.1, what=text)


def test_scheduler_and_worker_reload_and_tell_while_a_task_runs(house: Plant) -> None:
    scheduler: Process = house.start("scheduler")
    worker = house.start_worker()
    house.wait_until_all_work(workers=1)
    [execution_id] = house.arena.ask_for_runs(1, of=["wait"])
    wait_until(
        lambda: any(line["message"] == "begun" for line in house.log()),
        seconds=PATIENCE,
        every=0.1,
        what="the task",
    )

    (house.arena.folder / "jobs.toml").write_text(FAULTY)
    for process in (scheduler, worker):
        process.send_signal(signal.SIGHUP)
    wait_for(house, "reload.refused", "Nothing was reloaded")
    wait_for(house, "reload", "Settings that changed: none")  # a scheduler has no jobs file
    [refused] = house.lines("reload.refused")
    assert len(refused["stack"].splitlines()) == 4

    (house.arena.folder / "jobs.toml").write_text(jobs(house.arena.folder) + SECOND)
    (house.arena.folder / "settings.toml").write_text(
        "shutdown_grace_seconds = 7\nretry_delay_ms = 1234\n"
    )
    for process in (scheduler, worker):
        process.send_signal(signal.SIGHUP)
    wait_for(house, "reload", "new: other")
    wait_until(
        lambda: len(house.lines("reload.restart")) == 2,
        seconds=PATIENCE,
        every=0.1,
        what="both to tell what needs a restart",
    )
    assert {line["message"] for line in house.lines("reload.restart")} == {
        "Settings that changed and take effect at the next start: CRON_RETRY_DELAY_MS"
    }
    assert told(house, "reload", "Settings that changed: CRON_SHUTDOWN_GRACE_SECONDS")

    for process in (scheduler, worker):
        process.send_signal(signal.SIGUSR1)
    wait_for(house, "state", "Scheduler: looked for edits at")
    wait_for(house, "state", "Worker: 1 of 1 at hand")
    wait_for(house, "state", "Servers: all answer")
    [running] = [line for line in house.lines("state") if "Runs," in line["message"]]
    assert (running["execution"], running["attempt"]) == (execution_id, 1)

    (house.arena.folder / "go").touch()
    wait_until(lambda: not house.arena.unfinished(), seconds=PATIENCE, every=0.1, what="the end")
    [execution] = house.arena.executions()
    assert (execution.state, execution.attempt, execution.deaths) == (State.SUCCEEDED, 1, 0)
    house.stop()
