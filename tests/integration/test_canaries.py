"""A canary in every secret, grepped for in all that real commands print, leave behind and show."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from tests.integration.shell import Shell, clean_environment
from tests.services.finding import free_port

pytestmark = pytest.mark.integration

CANARY = "c4naryInTheM1ne"
PROGRAM = str(Path(sys.executable).with_name("cronhare"))

PATIENCE = 60.0

#: A task that shows what it was given, and what it can see of the processes around it.
JOBS = """
[tasks.curious]
id = 1
command = ["/bin/sh", "-c", "env; ps axww -o args= || true; cat; echo seen"]
[schedules.curious]
task = "curious"
on_start = true
"""

COMMANDS = (
    "check jobs.toml",
    "plan jobs.toml",
    "apply jobs.toml",
    "schedules",
    "schedules --json",
    "run curious",
    "explain curious --at 08:00Z --json",
    "executions list --json",
    "failed list --json",
    "doctor --json",
    "settings",
    "settings --json",
    "db upgrade",
)
PROCESSES = ("scheduler", "worker --jobs jobs.toml", "up --jobs jobs.toml")


def settings(port: int, **changes: str) -> dict[str, str]:
    """Settings whose servers are away, and whose every secret is the canary."""
    return {
        "CRON_DATABASE_URL": f"mysql://{CANARY}:{CANARY}@127.0.0.1:{port}/cron",
        "CRON_BROKER_URL": f"amqp://{CANARY}:{CANARY}@127.0.0.1:{port}/",
        "CRON_MESSAGE_KEY": f"{CANARY}{CANARY}{CANARY}",
        "CRON_LOG_LEVEL": "DEBUG",
        **changes,
    }


def said_by(folder: Path, command: str, environment: dict[str, str]) -> str:
    """Run a process to its end, or until it waits for its servers, and give all that it said.

    While it runs, nobody finds the canary in its arguments either.
    """
    out = folder / "said"
    with out.open("wb") as file:
        process = subprocess.Popen(
            [PROGRAM, *command.split()],
            cwd=folder,
            env=clean_environment() | environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    assert CANARY.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    give_up_at = time.monotonic() + PATIENCE
    try:
        while process.poll() is None and "asking again" not in out.read_text(errors="replace"):
            assert time.monotonic() < give_up_at, f"{command} says nothing"
            time.sleep(0.05)
        process.terminate()
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
    return out.read_text(errors="replace")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "jobs.toml").write_text(JOBS)
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_no_command_shows_it_while_the_servers_are_away(folder: Path) -> None:
    environment = settings(free_port(), CRON_LOG_FORMAT="json")
    for command in COMMANDS:
        said = Shell(folder)(*command.split(), **environment)
        assert said.out + said.err, command
        assert CANARY not in said.out + said.err, f"{command}: {said}"


@pytest.mark.parametrize("process", PROCESSES)
def test_no_process_shows_it_while_the_servers_are_away(folder: Path, process: str) -> None:
    said = said_by(folder, process, settings(free_port(), CRON_LOG_FORMAT="json"))

    assert said
    assert CANARY not in said, said


def test_no_task_and_no_file_has_it_while_all_goes_well(folder: Path) -> None:
    """The ledger is a file here: nothing of the secrets is needed, and all of them are given.

    The task shows every process of the machine, among them those of tests beside this one.
    """
    canary = f"{CANARY}{token_hex(4)}"
    environment = {
        "CRON_MESSAGE_KEY": canary * 3,
        "CRON_LOG_LEVEL": "DEBUG",
        "AMQP_PASSWORD": canary,
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "up", "--no-web", "--jobs", "jobs.toml"],
            cwd=folder,
            env=clean_environment() | environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    give_up_at = time.monotonic() + PATIENCE
    try:
        while "Task completed successfully" not in (folder / "log").read_text():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < give_up_at, (folder / "log").read_text()
            time.sleep(0.1)
    finally:
        process.terminate()
        process.wait(60)

    files = [path for path in folder.rglob("*") if path.is_file()]
    assert "seen" in (folder / "log").read_text()
    assert [path for path in files if canary.encode() in path.read_bytes()] == []
