"""Commands that read: they create nothing, and long lists end somewhere."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copyfile

import pytest

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.events.alerts import SqlAlertStore
from cronhare.adapters.sql.tables.tables import outbox
from cronhare.adapters.system.clock import SystemClock
from cronhare.domain.events.judging import alert
from cronhare.domain.events.rules import Rule
from tests.integration.shell import Shell

pytestmark = pytest.mark.integration

READING = (
    "alerts list", "alerts show failed", "audit list", "breakers list", "budgets list", "doctor",
    "events list", "executions list", "executions show 1", "executions stats", "explain nightly",
    "failed list", "failed show 1", "failed stats", "logs nightly", "metrics", "next @daily",
    "nodes list", "quarantine list", "queues", "replays list", "replays show 1", "schedules",
    "schedules export", "schedules show nightly", "service install --print", "settings",
    "tokens list",
)  # fmt: skip

JOBS = '[tasks.report]\ncommand = ["true"]\n' + "".join(
    f'[schedules.{name}]\ntask = "report"\nevery = "1h"\n' for name in ("first", "second", "third")
)


@pytest.mark.parametrize("command", READING)
def test_to_read_creates_no_file(command: str, tmp_path: Path) -> None:
    said = Shell(tmp_path)(*command.split(), HOME=str(tmp_path))

    assert "Traceback" not in said.err
    assert said.status in {0, 2, 3}
    assert (said.status == 3) == ("cronhare db upgrade" in said.err) or command == "doctor"
    assert [*tmp_path.rglob("*")] == []


@pytest.fixture
def shell(tmp_path: Path, migrated_sqlite: Path) -> Shell:
    """A shell beside an empty ledger."""
    copyfile(migrated_sqlite, tmp_path / "cronhare.sqlite3")
    shell = Shell(tmp_path)
    shell.write(JOBS)
    return shell


def test_no_alerts_of_a_ledger_that_nobody_judges_say_so(shell: Shell) -> None:
    said, as_json = shell("alerts", "list"), shell("alerts", "list", "--json")

    assert said.out.startswith("No alert is listed.\nNobody has judged the ledger so far: ")
    assert as_json.json() == []
    assert as_json.err.startswith("Nobody has judged the ledger so far: ")


def test_a_list_without_what_is_asked_for_says_no_more_than_that(shell: Shell) -> None:
    assert shell("apply", "jobs.toml").status == 0

    assert shell("audit", "list", "--who", "fooo").out == "No entry is like that.\n"
    assert shell("events", "list", "--schedule", "first").out == "No event is like that.\n"
    assert "no schedule 'frist'" in shell("events", "list", "--schedule", "frist").err
    assert "no type of tasks 'wroker'" in shell("failed", "list", "--type", "wroker").err


def test_alerts_are_chosen_by_what_they_are_and_shown_in_full(shell: Shell) -> None:
    engine = open_engine(f"sqlite:///{shell.folder}/cronhare.sqlite3")
    store, now = SqlAlertStore(engine, SystemClock()), datetime.now(UTC)
    assert store.begin(now=now, every=timedelta(minutes=1))
    queue = alert(Rule.QUEUE, "nobody", now=now, value=3, subject="mail")
    store.keep([queue, alert(Rule.NODE, "silent", now=now, value=60)], now=now, ended_at=now)
    engine.dispose()

    def listed(*options: str) -> list[object]:
        return [each["rule"] for each in shell("alerts", "list", "--json", *options).json()]

    whole, other = shell("alerts", "list").out, shell("alerts", "list", "--rule", "unsent").out
    full, none = shell("alerts", "show", "node").out, shell("alerts", "show", "x" * 100_000)

    assert whole.split()[:5] == ["SEVERITY", "ALERT", "ABOUT", "SINCE", "WHAT"]
    assert "OVER" in shell("alerts", "list", "--cleared").out
    assert (listed("--rule", "node"), listed("--severity", "critical")) == (["node"], ["queue"])
    assert "A node is silent" in full
    assert "No worker serves" not in full
    assert (none.status, "xxx...'; there are: node, queue" in none.err) == (2, True)
    assert len(none.err) < 300
    assert other.startswith("No alert is like that.\nJudged last at ")


def test_a_recovery_that_is_to_be_told_does_not_look_like_one_that_came(shell: Shell) -> None:
    engine = open_engine(f"sqlite:///{shell.folder}/cronhare.sqlite3")
    row = {"event_key": "expected:1", "event": "recovered", "target": "ops", "source": "jobs.toml"}
    when = {"scheduler_id": 1, "schedule_name": "nightly", "occurred_at": datetime.now(UTC)}
    with engine.begin() as connection:
        connection.execute(
            outbox.insert().values(**row, **when, payload="", state="expected", tries=0)
        )
    engine.dispose()

    (line,) = shell("events", "list").out.splitlines()[1:]

    said = "recovered nightly - - ops expected it is told once the schedule succeeds again"
    assert line.split() == said.split()


def test_a_list_of_schedules_ends_at_its_limit_and_says_so(shell: Shell) -> None:
    assert shell("apply", "jobs.toml").status == 0

    some = shell("schedules", "--limit", "2")
    as_json = shell("schedules", "--limit", "2", "--json")
    found = shell("schedules", "--search", "thir", "--json")
    none = shell("schedules", "--search", "nothing")
    whole = shell("schedules", "--limit", "3")

    assert "second" in some.out
    assert "third" not in some.out
    assert "The first 2 by name; there are more: --limit" in some.out
    assert [each["name"] for each in as_json.json()] == ["first", "second"]
    assert "The first 2 by name" in as_json.err
    assert [each["name"] for each in found.json()] == ["third"]
    assert none.out == "No schedule has 'nothing' in its name or description.\n"
    assert "there are more" not in whole.out
