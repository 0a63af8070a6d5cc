"""Signals to real processes: what goes on, what changes, what is told, and what ends at last."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import termios
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cronhare.domain.execution import STARTABLE, State
from tests.faults.arena import Arena
from tests.faults.house import has_begun
from tests.faults.jobs import EARLY
from tests.faults.saying import lines
from tests.integration.invocations import alive
from tests.integration.shell import PROGRAM, Shell, clean_environment
from tests.integration.test_up import Starter, Up, start
from tests.production.plant import PATIENCE, Plant, Process, plant
from tests.services.finding import missing, wait_until
from tests.services.lives import Private
from tests.services.mariadb import Server as Mariadb
from tests.services.proxy import proxy_in_thread
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


@contextmanager
def on_terminal(folder: Path, *prefix: str) -> Iterator[tuple[Up, int]]:
    """Have `up` run a task that waits, on a terminal of its own."""
    file = folder / "jobs.toml"
    file.write_text(jobs(folder, on_start=True))
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
    up = Up(folder / "log", process)
    try:
        up.until(r"\] begun")
        yield up, master
    finally:
        process.kill()


def test_up_ends_in_good_order_when_its_terminal_is_gone(tmp_path: Path) -> None:
    with on_terminal(tmp_path) as (up, terminal):
        os.close(terminal)
        up.until("SIGHUP received, shutting down gracefully")
        up.process.send_signal(signal.SIGHUP)  # a shell says so as well
        (tmp_path / "go").touch()
        assert up.process.wait(timeout=60) == 0

    assert "Task completed successfully" in up.log
    assert "again, ending what runs" not in up.log


def test_up_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "nohup") as (up, terminal):
        up.until("SIGHUP is ignored, as under nohup: what changes needs a restart")
        os.close(terminal)
        (tmp_path / "go").touch()
        up.until("Task completed successfully")
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
        lambda: any(line["message"] == "begun" for line in lines(house.arena.logs)),
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


#: What is promised, in seconds. The processes are quicker: a busy machine is no fault of theirs.
PROMISED = 60.0

#: It stops the warden, and hears no TERM.
STUBBORN_JOBS = """
[tasks.stubborn]
id = 1
command = ["/bin/sh", "stubborn"]

[schedules.stubborn]
task = "stubborn"
schedule = "0 0 1 1 *"
"""
STUBBORN = """
trap '' TERM
kill -STOP $PPID
echo $$ $PPID >ready.new
mv ready.new ready
while :; do sleep 0.1; done
"""

#: The last word of a process that is ended by force.
FORCED = re.compile(
    r"Ended without waiting any longer for \S.*; still there: \S.*\. What was not written down"
)

SETTINGS = {"CRON_SHUTDOWN_GRACE_SECONDS": "1"}


@pytest.fixture
def stubborn_house(rabbitmq: RabbitMQ, mariadb: Mariadb, tmp_path: Path) -> Iterator[Plant]:
    (tmp_path / "stubborn").write_text(STUBBORN)
    with plant(tmp_path, rabbitmq, mariadb, STUBBORN_JOBS, **SETTINGS) as built:
        yield built


@pytest.fixture
def servers(rabbitmq: RabbitMQ, mariadb: Mariadb) -> dict[str, Private]:
    found: dict[str, Private] = {}
    for name, server in (("broker", rabbitmq), ("database", mariadb)):
        if not isinstance(server, Private):
            missing(f"a private {name}", "stop using one of the environment")
        found[name] = server
    return found


def run_the_stubborn(arena: Arena) -> list[int]:
    arena.ask_for_runs(of=["stubborn"])
    ready = arena.folder / "ready"
    wait_until(ready.exists, seconds=60, what="the task")
    return [int(each) for each in ready.read_text().split()]


def end_all(
    processes: Sequence["subprocess.Popen[bytes]"], *, signals: int, frozen: Iterable[Private] = ()
) -> float:
    """Ask for the end of processes, and tell how many seconds the last of them took."""
    with ExitStack() as stack:
        for server in frozen:
            stack.enter_context(server.frozen())
        began = time.monotonic()
        for _ in range(signals):
            for process in processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        for process in processes:
            process.wait(max(2 * PROMISED - (time.monotonic() - began), 1))
    return time.monotonic() - began


def ended_in_order(arena: Arena, processes: Sequence["subprocess.Popen[bytes]"]) -> bool:
    """Whether each ended by itself, or by force with status 3 and a word on what was left."""
    lines = [json.loads(line) for line in arena.said().splitlines() if line.startswith("{")]
    last_words = [line["message"] for line in lines if line.get("action") == "shutdown.forced"]
    statuses = [process.returncode for process in processes]
    assert set(statuses) <= {0, 3}, arena.said()[-3000:]
    assert len(last_words) == statuses.count(3), arena.said()[-3000:]
    return all(map(FORCED.match, last_words))


def test_worker_and_scheduler_end_with_status_0_beside_a_broker_that_stands_still(
    vhost: str, tmp_path: Path
) -> None:
    port = urlsplit(vhost).port
    assert port is not None
    with proxy_in_thread(port) as (own_port, link):
        url = vhost.replace(str(port), str(own_port))
        arena = Arena(tmp_path, 0, CRON_BROKER_URL=url, CRON_SHUTDOWN_GRACE_SECONDS="1")
        arena.hold(EARLY)
        arena.apply()
        arena.start("worker", "--jobs", "jobs.toml", "--concurrency", "4")
        arena.start("scheduler")
        try:
            for each in arena.processes:
                wait_until(partial(has_begun, each), seconds=PATIENCE, what="a start")
            [held] = arena.ask_for_runs(of=[EARLY])
            wait_until(lambda: (held, 1) in arena.starts(), seconds=PATIENCE, what="the task")
            link.freeze()
            took = end_all(arena.processes, signals=1)
        finally:
            arena.close()
    [state] = [run.state for run in arena.executions() if run.id == held]

    assert [each.returncode for each in arena.processes] == [0, 0], arena.said()[-5000:]
    assert took < PROMISED
    assert "Traceback" not in arena.said()
    assert state in STARTABLE


@pytest.mark.long  # as those below, by `make faults`
@pytest.mark.parametrize(
    ("frozen", "signals"), [((), 2), (("database",), 2), (("database", "broker"), 1)]
)
def test_scheduler_and_worker_end(
    stubborn_house: Plant, servers: dict[str, Private], frozen: Sequence[str], signals: int
) -> None:
    stubborn_house.start("scheduler")
    stubborn_house.start_worker()
    stubborn_house.wait_until_all_work(workers=1)
    task, warden = run_the_stubborn(stubborn_house.arena)

    took = end_all(
        stubborn_house.processes, signals=signals, frozen=[servers[name] for name in frozen]
    )

    assert took < PROMISED
    assert ended_in_order(stubborn_house.arena, stubborn_house.processes)
    assert not alive(task)
    assert not alive(warden)


@pytest.mark.long
def test_a_worker_ends_that_never_found_its_servers(
    stubborn_house: Plant, servers: dict[str, Private]
) -> None:
    with servers["broker"].frozen():
        worker = stubborn_house.start_worker()
        asks = partial(stubborn_house.lines, "broker.unavailable")
        wait_until(lambda: bool(asks()), seconds=PROMISED, what="the first complaint")

        took = end_all([worker], signals=1)

    assert took < PROMISED
    assert ended_in_order(stubborn_house.arena, [worker])
