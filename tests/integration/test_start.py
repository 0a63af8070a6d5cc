"""What scheduler and worker make of a ledger that is not as it should be when they start."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile

import pytest
from sqlalchemy import URL

from cronhare.adapters.sql.dialects import open_engine
from tests.integration.test_up import Starter, Up, start
from tests.services.finding import free_port
from tests.services.proxy import proxy

pytestmark = pytest.mark.integration

__all__ = ["start"]  # a fixture

COMMANDS = ("scheduler", "worker")

#: What both say once they have begun, for there is no broker.
BEGUN = "see that CRON_BROKER_URL names its host"


@pytest.fixture
def begin(start: Starter, tmp_path: Path) -> Callable[..., Up]:
    """Start a command on a ledger. The broker is away by default: that keeps nobody from it."""
    away = f"amqp://127.0.0.1:{free_port()}/"
    (tmp_path / "jobs.toml").write_text('[tasks.any]\ncommand = ["true"]\n')

    def begin(command: str, ledger: URL | str, broker: str = away) -> Up:
        url = ledger if isinstance(ledger, str) else ledger.render_as_string(hide_password=False)
        servers = {"CRON_DATABASE_URL": url, "CRON_BROKER_URL": broker, "CRON_LOG_LEVEL": "DEBUG"}
        return start(Path("jobs.toml"), command=command, **servers)

    return begin


@pytest.fixture
def ledger(tmp_path: Path, migrated_sqlite: Path) -> str:
    return f"sqlite:///{copyfile(migrated_sqlite, tmp_path / 'ledger.sqlite3')}"


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_ledger_it_makes_none_and_says_what_does(
    begin: Callable[..., Up], tmp_path: Path, command: str
) -> None:
    process = begin(command, "sqlite:///new.sqlite3")

    assert process.process.wait(timeout=60) == 3
    assert "/new.sqlite3. To use another, set CRON_DATABASE_URL" in process.log
    assert "run `cronhare db upgrade`" in process.log
    assert not [*tmp_path.glob("new.sqlite3*")]
    assert "Traceback" not in process.log


@pytest.mark.parametrize("command", COMMANDS)
def test_on_a_newer_schema_it_works_and_says_so(
    begin: Callable[..., Up], ledger: str, command: str
) -> None:
    engine = open_engine(ledger)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE cronhare_schema SET version_num = '9999'")
    engine.dispose()

    process = begin(command, ledger)
    process.until("was made by a newer cronhare")
    process.until(BEGUN)

    assert process.end() == 0


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_ledger_that_is_away_is_waited_for(
    begin: Callable[..., Up], migrated_mysql: URL, command: str
) -> None:
    port = free_port()
    process = begin(command, migrated_mysql.set(host="127.0.0.1", port=port))
    process.until("The ledger cannot be used, asking again")
    assert migrated_mysql.port is not None

    async with proxy(migrated_mysql.port, listen=port) as (_, link):
        await asyncio.to_thread(process.until, BEGUN)
        assert link.connections > 0
        assert await asyncio.to_thread(process.end) == 0


def test_while_the_ledger_is_away_a_signal_ends_it(begin: Callable[..., Up]) -> None:
    process = begin("worker", f"mysql+pymysql://u:secret@127.0.0.1:{free_port()}/cronhare")
    process.until("The ledger cannot be used")

    assert process.end() == 0
    assert "secret" not in process.log


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "scheduler",
            [
                "; queues cron_scheduler",
                "Scheduling; edits are seen within 5 s",
                "A probe came through each of 16 lanes",
            ],
        ),
        (
            "worker",
            [
                "; queues cron_scheduler; 1 task of jobs.toml, 1 at a time",
                "Consuming cron_scheduler",
            ],
        ),
    ],
)
def test_it_says_what_it_is_and_that_it_works(
    begin: Callable[..., Up], ledger: str, vhost: str, command: str, said: list[str]
) -> None:
    process = begin(command, ledger, vhost)

    for each in said:
        process.until(each)

    assert process.end() == 0
