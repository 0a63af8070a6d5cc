import csv
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

from tests.integration.shell import Shell

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"
DAY = 24 * 60 * 60


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The examples in a place of their own, so that what they write does not outlive the test."""
    copy = tmp_path / "examples"
    copytree(EXAMPLES, copy, ignore=ignore_patterns("var"))
    return copy


def run(
    examples: Path, name: str, params: object = None, **environment: str
) -> tuple["subprocess.CompletedProcess[str]", list[dict[str, Any]]]:
    """Run a task, and give what it tells its worker as well."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as ipc:
        ran = subprocess.run(
            [sys.executable, str(examples / "tasks" / f"{name}.py")],
            input=json.dumps(params or {}),
            capture_output=True,
            text=True,
            env={"PATH": os.defpath, "CRON_IPC_FD": str(writer), **environment},
            pass_fds=[writer],
            timeout=60,
            check=False,
        )
        os.close(writer)
        return ran, [json.loads(line) for line in ipc]


def run_well(examples: Path, name: str, params: object = None, **environment: str) -> list[str]:
    ran, _ = run(examples, name, params, **environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def read_failure(examples: Path, name: str, params: object) -> dict[str, Any]:
    """Run a task that must fail, and give the error that it reports to its worker."""
    ran, [message] = run(examples, name, params)
    assert ran.returncode == 1
    assert message["failed"] is True
    error = message["error"]
    assert isinstance(error, dict)
    return error


def everything_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_sales_report_adds_up(examples: Path) -> None:
    with (examples / "data" / "sales.csv").open(newline="") as file:
        cents = sum(
            int(row["quantity"]) * round(float(row["price"]) * 100) for row in csv.DictReader(file)
        )
    total = f"{cents / 100:,.2f}"

    printed = run_well(examples, "sales_report")

    page = (examples / "var" / "reports" / "sales.html").read_text()
    assert len(printed) == 4
    assert f"{total} in all" in printed[0]
    assert f"<strong>{total}</strong>" in page
    for section in ("region", "product", "month"):
        _, _, table = page.partition(f"<h2>By {section}</h2>")
        rows = re.findall(r"<td>([\d,]+\.\d\d)$", table.partition("</table>")[0], re.MULTILINE)
        assert sum(round(float(row.replace(",", "")) * 100) for row in rows) == cents


@pytest.fixture
def old_files(examples: Path) -> Iterator[Path]:
    """A folder with old and young files, an old folder, and a link to something dear."""
    folder = examples / "var" / "logs"
    (folder / "deep").mkdir(parents=True)
    dear = examples / "dear.log"
    for path, age in {
        folder / "old.log": 40,
        folder / "old.txt": 40,
        folder / "young.log": 1,
        folder / "deep" / "old.log": 40,
        dear: 40,
    }.items():
        path.write_text("12345")
        changed = path.stat().st_mtime - age * DAY
        os.utime(path, (changed, changed))
    (folder / "link.log").symlink_to(dear)
    (folder / "linked").symlink_to(examples)
    yield folder
    assert dear.exists()


def names_in(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {"link.log"}


@pytest.mark.parametrize(
    ("params", "removed"),
    [
        ({"pattern": "*.log"}, {"old.log"}),
        ({}, {"old.log", "old.txt"}),
        ({"pattern": "**/*.log"}, {"old.log", "deep/old.log"}),
        ({"dry_run": True}, set()),
        ({"pattern": "linked/*.log"}, set()),
    ],
)
def test_the_cleanup_removes_what_is_old_and_nothing_else(
    examples: Path, old_files: Path, params: dict[str, object], removed: set[str]
) -> None:
    before = names_in(old_files)

    printed = run_well(examples, "cleanup_old_files", {"folder": "var/logs", **params})

    assert before - names_in(old_files) == removed
    assert (old_files / "link.log").is_symlink()
    if not params.get("dry_run"):
        assert {line.split()[1].rstrip(",") for line in printed[:-1]} == removed
        assert printed[-1].startswith(f"{len(removed)} files")


@pytest.mark.usefixtures("old_files")
@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "no folder is given"),
        ({"folder": "."}, "outside"),
        ({"folder": "var/logs", "days": -1}, "days is -1"),
        ({"folder": "var/logs", "pattern": "../*"}, "leads out"),
    ],
)
def test_the_cleanup_refuses_what_could_be_a_slip(
    examples: Path, params: dict[str, object], told: str
) -> None:
    before = everything_below(examples)

    error = read_failure(examples, "cleanup_old_files", params)

    assert error["class"] == "permanent"
    assert told in error["message"]
    assert everything_below(examples) == before


def test_the_backup_is_a_database_like_its_source(examples: Path) -> None:
    printed = run_well(examples, "backup_sqlite")

    (backup,) = (examples / "var" / "backups").iterdir()
    with closing(sqlite3.connect(backup)) as database:
        (count,) = database.execute("SELECT count(*) FROM sales").fetchone()
    assert count == len((examples / "data" / "sales.csv").read_text().splitlines()) - 1
    assert re.fullmatch(r"sales-\d{4}-\d\d-\d\dT\d{6}Z\.sqlite3", backup.name)
    assert f"{count} sales" in printed[0]
    assert backup.name in printed[1]


def test_the_one_that_always_fails_says_why(examples: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    error = read_failure(examples, "always_fails", {"port": port})

    assert error["code"] == "ECONNREFUSED"
    message = f"the payment gateway at 127.0.0.1:{port} refused the connection"
    assert error["message"] == message


def test_a_reminder_is_kept_once_for_all_attempts(examples: Path) -> None:
    params = {"to": "Ada", "text": "Water the tomatoes"}
    key = "once-2025-12-15-15-0"

    for attempt in ("1", "2"):
        printed = run_well(examples, "remind", params, CRON_ATTEMPT=attempt, CRON_EXECUTION_KEY=key)

    assert printed == ["REMINDER Ada: Water the tomatoes"]
    assert everything_below(examples / "var") == {
        f"reminders/{key}.txt": b"Ada: Water the tomatoes\n"
    }


def test_the_shop_can_be_applied_and_its_tasks_run(examples: Path) -> None:
    shell = Shell(examples / "shop")
    assert "2 tasks and 4 schedules, no faults" in shell("check", "--app", "shop.jobs:app").out

    task = [sys.executable, "-m", "cronhare.entrypoints.python.calling", "shop.jobs:app", "refresh"]
    done = subprocess.run(
        task,
        cwd=shell.folder,
        input=json.dumps({"region": "eu", "limit": 2}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("users of eu since ")
