"""What the commands import: each is loaded when it is called, and what it does not use is not."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from typer.core import TyperCommand

from cronhare.entrypoints.cli import commands
from cronhare.entrypoints.cli.command_tree import TREE, Commands

JOBS = """
[tasks.one]
command = ["true"]

[schedules.one]
task = "one"
schedule = "0-30/5 2 * * mon"
"""

#: Runs a command and then prints all that was imported for it, a list in JSON on the last line.
IMPORTS_OF = """
import json, sys
from cronhare.entrypoints.cli.app import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print()
print(json.dumps(sorted(sys.modules)))
"""

#: Libraries and houses of ours that take long to import, and no answer needs that asks no server.
HEAVY = {
    "alembic",
    "aio_pika",
    "aiormq",
    "concurrent.futures.thread",
    "cronhare.adapters.memory",
    "cronhare.adapters.process.runner",
    "cronhare.adapters.rabbitmq",
    "cronhare.adapters.sql",
    "cronhare.application.administration.jobs_file.applying",
    "cronhare.application.doctor.queues",
    "cronhare.entrypoints.container",
    "cronhare.entrypoints.processes",
    "dependency_injector",
    "icalendar",
    "recurring_ical_events",
    "pika",
    "psycopg",
    "pymysql",
    "smtplib",
    "sqlalchemy",
    "sqlite3",
}

#: What a page of help needs even less.
HELP_DOES_WITHOUT = HEAVY | {
    "asyncio",
    "attr",
    "cronhare.adapters",
    "cronhare.application",
    "cronhare.domain",
    "cronhare.ports",
    "importlib.metadata",
    "logging",
    "msgspec",
    "pydantic",
    "rich",
}


#: What each command has: typer, and what it brings.
TYPER = {"annotated_doc", "shellingham", "typer"}

#: What values are made with.
VALUES = {"attr", "attrs", "msgspec", "typing_extensions"}

#: What lists the values of a range.
RANGES = {"croniter", "dateutil", "pytz", "six"}

#: What a container and a ledger are made with.
OF_A_LEDGER = {
    "greenlet",
    "cython_runtime",
    "dependency_injector",
    "sqlalchemy",
}

#: Characters of such a text in a window of 80.
_WIDTH = 62


def imports_of(arguments: Sequence[str], folder: Path) -> set[str]:
    plain = {name: text for name, text in os.environ.items() if not name.startswith("CRON_")}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS_OF, *arguments],
        cwd=folder,
        env=plain,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("call", [["--help"], ["schedules", "--help"], ["failed", "--help"]])
def test_a_list_of_commands_imports_none_of_them(call: Sequence[str], tmp_path: Path) -> None:
    assert not HELP_DOES_WITHOUT & imports_of(call, tmp_path)


def libraries(imported: Iterable[str]) -> set[str]:
    """Name those that are neither Python's nor ours; what begins so is of their own making."""
    pythons = {*sys.stdlib_module_names, "sitecustomize"}  # the latter by Debian
    found = {name.partition(".")[0] for name in imported} - pythons
    return {name for name in found if name != "cronhare" and not name.startswith("_")}


@pytest.mark.parametrize(
    ("call", "may_import"),
    [
        (["--version"], set[str]()),
        (["next", "@daily"], VALUES),
        (["check", "jobs.toml"], VALUES | RANGES),
        (["failed", "list", "--help"], VALUES),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_asks_no_server_imports_what_it_uses(
    call: Sequence[str], may_import: set[str], tmp_path: Path
) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)

    imported = imports_of(call, tmp_path)

    assert libraries(imported) <= TYPER | may_import
    assert not HEAVY & imported


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger that has a schedule."""
    folder = tmp_path_factory.mktemp("ledger")
    (folder / "jobs.toml").write_text(JOBS)
    for call in (["db", "upgrade"], ["apply", "jobs.toml"]):
        imports_of(call, folder)
    return folder


@pytest.mark.parametrize("call", ["nodes list", "schedules"])
def test_a_list_imports_no_library_that_it_does_not_ask(call: str, ledger: Path) -> None:
    imported = imports_of(call.split(), ledger)

    assert libraries(imported) <= TYPER | VALUES | RANGES | OF_A_LEDGER
    # Whoever ends has closed the ledger: SQLite has nothing left beside it.
    assert {path.name for path in ledger.iterdir()} == {"cronhare.sqlite3", "jobs.toml"}


@pytest.mark.parametrize("name", TREE)
def test_each_command_is_where_the_list_says(name: str) -> None:
    command = Commands().load(name)

    assert isinstance(command, TyperCommand) or command.list_commands(None)  # type: ignore[arg-type]
    assert command.help


def all_groups() -> dict[str, Commands]:
    return {"cronhare": Commands()} | {
        f"cronhare {name}": command
        for name in TREE
        if isinstance(command := Commands().load(name), Commands)
    }


def test_no_command_is_left_out_of_the_list() -> None:
    for group in all_groups().values():
        for name in group.places:
            group.load(name)
    modules = {path.stem for path in Path(commands.__path__[0]).glob("[a-z]*.py")}

    assert modules <= {
        name.rpartition(".")[2] for name in sys.modules if name.startswith(f"{commands.__name__}.")
    }


@pytest.mark.parametrize("group", all_groups())
def test_the_list_of_commands_cuts_no_text_short(group: str) -> None:
    for name, (_, text) in all_groups()[group].places.items():
        assert TyperCommand(name, help=text).get_short_help_str(_WIDTH) == text
