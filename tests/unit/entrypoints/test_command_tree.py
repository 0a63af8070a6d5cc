"""What commands and processes import, where commands are listed, what TAB gives, who calls."""

import inspect
import json
import os
import pwd
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperCommand

from cronhare.adapters.extras import EXTRAS
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.nodes import read_node
from cronhare.entrypoints.cli import options
from cronhare.entrypoints.cli.command_tree import Commands
from cronhare.entrypoints.cli.commands.replays import this_author
from cronhare.entrypoints.container import Part, providers
from cronhare.entrypoints.node_identity import this_actor, this_node, this_user
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer

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
    "alembic", "aio_pika", "aiormq", "concurrent.futures.thread", "cronhare.adapters.memory",
    "cronhare.adapters.process.runner", "cronhare.adapters.rabbitmq", "cronhare.adapters.sql",
    "cronhare.application.administration.jobs_file.applying", "cronhare.application.doctor.queues",
    "cronhare.entrypoints.container", "cronhare.entrypoints.processes", "dependency_injector",
    "icalendar", "recurring_ical_events", "pika", "psycopg", "pymysql", "rich", "smtplib",
    "sqlalchemy", "sqlite3",
}  # fmt: skip

#: What a list of commands needs even less.
OF_VALUES = {"asyncio", "attr", "cronhare.adapters", "cronhare.domain", "logging", "msgspec"}

OF_A_LEDGER = {
    "cronhare.adapters.memory", "cronhare.adapters.sql", "cronhare.entrypoints.container",
    "dependency_injector", "sqlalchemy", "sqlite3",
}  # fmt: skip

#: Characters of such a text in a window of 80.
_WIDTH = 62


def imports_of(call: str, folder: Path) -> set[str]:
    plain = {name: text for name, text in os.environ.items() if not name.startswith("CRON_")}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS_OF, *call.split()],
        cwd=folder,
        env=plain,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger that has a schedule."""
    folder = tmp_path_factory.mktemp("ledger")
    (folder / "jobs.toml").write_text(JOBS)
    for call in ("db upgrade", "apply jobs.toml"):
        imports_of(call, folder)
    return folder


@pytest.mark.parametrize(
    ("call", "does_without"),
    [
        ("--help", HEAVY | OF_VALUES),
        ("failed --help", HEAVY | OF_VALUES),
        ("--version", HEAVY | OF_VALUES),
        ("next @daily", HEAVY),
        ("check jobs.toml", HEAVY),
        ("failed list --help", HEAVY),
        ("nodes list", HEAVY - OF_A_LEDGER),
        ("schedules", HEAVY - OF_A_LEDGER),
    ],
)
def test_a_command_imports_what_it_uses(call: str, does_without: set[str], ledger: Path) -> None:
    assert not does_without & imports_of(call, ledger)
    # Whoever ends has closed the ledger: SQLite has nothing left beside it.
    assert {path.name for path in ledger.iterdir()} == {"cronhare.sqlite3", "jobs.toml"}


def every_command(group: Commands) -> Iterator[tuple[Commands, str]]:
    for name in group.places:
        yield group, name
        if isinstance(found := group.load(name), Commands):
            yield from every_command(found)


def test_each_command_is_where_the_list_says_and_has_its_help_in_full() -> None:
    for group, name in every_command(Commands()):
        command, (_, text) = group.load(name), group.places[name]

        assert command.help, name
        shown = TyperCommand(name, help=text).get_short_help_str(_WIDTH)
        assert shown == text, f"{name}: a list of commands has room for {_WIDTH} characters"


#: Runs the command as a shell's completion does, and says what was imported for it.
CALL = """
import sys
sys.argv = ["cronhare"]
from cronhare.entrypoints.cli.app import main
try:
    main()
finally:
    sys.stderr.write(" ".join(sys.modules))
"""

ROWS = (
    "INSERT INTO Scheduler (name, schedule, status, queue, task_name)"
    " VALUES ('sales-report', '* * * * *', 1, 'reports', 'sales'),"
    " ('sales_other', '* * * * *', 1, 'reports', 'other'),"
    " ('back-up', '* * * * *', 0, 'cron_scheduler', 'back-up')"
)


@pytest.fixture(scope="module")
def made_ledger(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger')}/sales.sqlite3"
    engine = open_engine(url)
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql(ROWS)
    engine.dispose()
    return url


@pytest.fixture
def sales(made_ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRON_DATABASE_URL", made_ledger)


@pytest.mark.usefixtures("sales")
def test_names_of_the_settings_ledger_are_completed_letter_for_letter() -> None:
    assert options.SCHEDULES("sales_") == [("sales_other", "")]
    assert options.runs("sales-") == [("sales-report", "")]
    assert [name for name, _ in options.QUEUES("")] == ["cron_scheduler", "reports"]
    assert [name for name, _ in options.TASKS("s")] == ["sales"]
    # None of ours, such as the daily cleanup.
    assert [name for name, _ in options.SCHEDULES("")] == ["back-up", "sales-report", "sales_other"]


@pytest.mark.parametrize(
    "url",
    ["sqlite:///none.sqlite3", "sqlite:///text", "mysql+pymysql://a:b@127.0.0.1:9/c", "what?"],
)
def test_without_a_ledger_there_is_silence_and_no_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("no database at all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRON_DATABASE_URL", url)

    assert options.SCHEDULES("") == []
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("typed", "given"),
    [("sch", ["scheduler", "schedules"]), ("schedules pause s", ["sales-report", "sales_other"])],
)
@pytest.mark.usefixtures("sales")
def test_a_shell_is_given_what_fits(typed: str, given: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALL],
        env=os.environ
        | {
            "_CRONHARE_COMPLETE": "complete_bash",
            "COMP_WORDS": f"cronhare {typed}",
            "COMP_CWORD": str(len(typed.split())),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == given
    needless = HEAVY - {"cronhare.adapters.sql", "sqlite3"}
    assert not needless & set(done.stderr.split())


#: Wires what publishes, works and is preloaded, as a process that lives long does.
WIRE = """
import sys
from cronhare.entrypoints.processes.lifetime import preload
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.working import WorkingContainer

container = WorkingContainer(settings=Settings.read())
preload(container, with_page=True)
container.dispatcher(), container.reconciler(), container.tracing(), container.counting()
print(*(name for name in ("opentelemetry", "prometheus_client", "requests") if name in sys.modules))
"""


@pytest.mark.parametrize(
    ("settings", "imported"), [({}, []), ({"CRON_TRACING": "on"}, ["opentelemetry", "requests"])]
)
def test_without_its_setting_a_library_is_not_imported(
    settings: dict[str, str], imported: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WIRE], env=settings, capture_output=True, text=True, check=False
    )

    assert (done.stderr, done.stdout.split()) == ("", imported)


PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def module_of(library: str) -> str:
    return library.replace("-", "." if library.startswith("opentelemetry") else "_")


def test_each_extra_is_known_with_the_modules_of_its_libraries() -> None:
    declared = {
        extra: {module_of(re.split(r"[\[<>=~!]", library)[0]) for library in libraries}
        for extra, libraries in PROJECT["optional-dependencies"].items()
    }

    assert declared == {extra: set(modules) for extra, modules in EXTRAS.items()}


@pytest.mark.parametrize("name", ["\udcffhost", "two\nlines", "", "\x1b" * 64])
def test_a_host_name_that_no_ledger_takes_is_written_so_that_one_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)

    node = this_node()

    assert str(node).encode().decode().isprintable()
    assert read_node(str(node)) == node
    assert len(str(node)) <= 255


def test_no_variable_of_the_environment_says_whose_process_this_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody@prod")

    user = pwd.getpwuid(os.getuid()).pw_name
    assert (this_user(), this_author(None)) == (user, user)
    assert this_actor().name.startswith(f"{user}@")


def test_each_part_takes_what_the_container_gives_it() -> None:
    wired: Iterable[Any] = WorkingContainer(settings=Settings()).providers.values()
    parts: list[Any] = [
        part
        for part in providers.traverse(*wired)
        if isinstance(getattr(part, "provides", None), Part)
    ]

    assert len(parts) > 50
    for part in parts:
        signature = inspect.signature(part.provides.found())
        is_whole = not isinstance(part, providers.Factory)  # to those the caller adds some
        (signature.bind if is_whole else signature.bind_partial)(*part.args, **part.kwargs)
