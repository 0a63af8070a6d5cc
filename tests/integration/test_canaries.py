"""A canary in every secret, grepped for in all that real commands print, leave behind and show."""

from pathlib import Path
from secrets import token_hex

import pytest

from tests.integration.shell import Shell
from tests.integration.test_up import Starter, start
from tests.services.finding import free_port

pytestmark = pytest.mark.integration

__all__ = ["start"]  # a fixture

CANARY = "c4naryInTheM1ne"
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


def settings(port: int, **changes: str) -> dict[str, str]:
    """Settings whose servers are away, and whose every secret is the canary."""
    return {
        "CRON_DATABASE_URL": f"mysql://{CANARY}:{CANARY}@127.0.0.1:{port}/cron",
        "CRON_BROKER_URL": f"amqp://{CANARY}:{CANARY}@127.0.0.1:{port}/",
        "CRON_MESSAGE_KEY": f"{CANARY}{CANARY}{CANARY}",
        "CRON_LOG_LEVEL": "DEBUG",
        **changes,
    }


def test_no_command_shows_it_while_the_servers_are_away(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)
    environment = settings(free_port(), CRON_LOG_FORMAT="json")
    for command in COMMANDS:
        said = Shell(tmp_path)(*command.split(), **environment)
        assert said.out + said.err, command
        assert CANARY not in said.out + said.err, f"{command}: {said}"


@pytest.mark.parametrize("command", ["scheduler", "worker", "up"])
def test_no_process_shows_it_while_the_servers_are_away(
    start: Starter, tmp_path: Path, command: str
) -> None:
    jobs = tmp_path / "jobs.toml"
    jobs.write_text(JOBS)
    away = settings(free_port(), CRON_LOG_FORMAT="json")

    process = start(None if command == "scheduler" else jobs, command=command, **away)
    assert CANARY.encode() not in Path(f"/proc/{process.process.pid}/cmdline").read_bytes()
    process.until("asking again|cannot be reached")
    process.end()

    assert CANARY not in process.log


def test_no_task_and_no_file_has_it_while_all_goes_well(start: Starter, tmp_path: Path) -> None:
    """The ledger is a file here: nothing of the secrets is needed, and all of them are given.

    The task shows every process of the machine, among them those of tests beside this one.
    """
    (tmp_path / "jobs.toml").write_text(JOBS)
    canary = f"{CANARY}{token_hex(4)}"
    secrets = {"CRON_MESSAGE_KEY": canary * 3, "AMQP_PASSWORD": canary}

    up = start(Path("jobs.toml"), CRON_LOG_LEVEL="DEBUG", **secrets)
    log = up.until("Task completed successfully")
    up.end()

    assert "seen" in log
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if canary.encode() in path.read_bytes()] == []
