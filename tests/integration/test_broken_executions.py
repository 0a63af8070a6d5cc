"""Rows of the ledger's own tables that somebody spoilt: set apart, and told; the others go on."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.records.inspection import SqlInspection
from cronhare.domain.execution import Execution, Graces, State
from cronhare.ports.attempts import Refused
from cronhare.ports.inspection import LedgerFacts
from tests.integration.ledgers import GRACES, LEASE, Ledger, Shell
from tests.integration.shell import Shell as Commands

SQLITE = "sqlite"
DAY = timedelta(days=1)


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


IN_SQLITE = [
    (f"retry = '{'[' * 4000}'", "retry: not JSON"),
    ("attempt = 2147483647", "attempt: 2147483647: Expected `int` <= 1000000"),
    (f"due_at = '{'z' * 26}'", "due_at: 'zzz"),
    ("params = zeroblob(4000000)", "params: 4,000,000 bytes: Expected"),
]
IN_MYSQL = [  # whose texts are compared without the blanks at their ends
    ("state = RPAD(state, 16, ' ')", "  ': Invalid enum value"),
    ("due_at = '0000-00-00'", "due_at: '0000-00-00 00:00:00.000000': Invalid"),
]
SPOILT = pytest.mark.parametrize(
    ("database", "change", "problem"),
    [
        *((SQLITE, *each) for each in IN_SQLITE),
        *(pytest.param("mysql", *each, marks=pytest.mark.integration) for each in IN_MYSQL),
    ],
)


def spoil(shell: Shell, execution: Execution, change: str) -> None:
    shell(f"UPDATE SchedulerExecution SET {change} WHERE id = {execution.id}")


@SPOILT
def test_what_waits_and_is_broken_is_quarantined_and_the_others_are_sent(
    ledger: Ledger, shell: Shell, change: str, problem: str
) -> None:
    broken, sound = ledger.published("broken"), ledger.published("sound")
    spoil(shell, broken, change)
    ledger.clock.advance(DAY)

    refused = ledger.start(broken)
    found = ledger.claims.overdue(now=ledger.now, graces=Graces(), limit=2)

    assert isinstance(refused, Refused)
    [told] = (one for one in found if one.problem is not None)
    assert [one.id for one in found if one.problem is None] == [sound.id]
    assert told.problem is not None
    assert problem in told.problem
    assert len(told.problem) < 500
    assert ledger.overdue() == []
    ledger.clock.advance(DAY)
    assert ledger.overdue() == [sound.id]
    [row] = ledger.records.archive()
    assert (row.execution_id, row.kind) == (told.id, "quarantined")
    assert row.failed_reason == told.problem
    assert {one.id: one.state for one in ledger.executions()} == {
        told.id: State.QUARANTINED,
        sound.id: State.PUBLISHED,
    }
    assert ledger.started(sound).state is State.RUNNING


@SPOILT
def test_what_runs_and_is_broken_is_quarantined_once_its_lease_has_lapsed(
    ledger: Ledger, shell: Shell, change: str, problem: str
) -> None:
    broken, sound = ledger.running("broken"), ledger.running("sound")
    spoil(shell, broken, change)
    ledger.clock.advance(LEASE)

    found = ledger.claims.lapsed(now=ledger.now, limit=2)

    told = {one.id: one.problem for one in found}
    assert told.pop(sound.id) is None
    [said] = told.values()
    assert said is not None
    assert problem in said
    assert ledger.lapsed() == [sound.id]
    assert [row.kind for row in ledger.records.archive()] == ["quarantined"]


def test_a_broken_row_that_was_mended_can_be_replayed(ledger: Ledger, shell: Shell) -> None:
    broken = ledger.published()
    spoil(shell, broken, "retry = 'nonsense'")
    ledger.clock.advance(DAY)
    assert ledger.overdue() == [broken.id]
    [archived] = ledger.records.archive()

    refused = ledger.records.replay([archived.id], now=ledger.now)
    spoil(shell, broken, "retry = NULL")
    [replayed] = ledger.records.replay([archived.id], now=ledger.now)

    assert refused == []
    assert (replayed.id, replayed.state, replayed.problem) == (broken.id, State.CLAIMED, None)
    assert ledger.started(replayed).attempt == 2


@pytest.mark.parametrize("time", ["NULL", "'9999-12-31 23:59:59.000000'"])
def test_what_has_no_time_to_look_for_it_is_found_again(
    ledger: Ledger, shell: Shell, time: str
) -> None:
    waiting, running = ledger.published("waiting"), ledger.running("running")
    spoil(shell, waiting, f"check_at = {time}")
    spoil(shell, running, f"lease_until = {time}")
    ledger.clock.advance(DAY)
    assert (ledger.overdue(), ledger.lapsed()) == ([], [])

    regained = ledger.claims.regain(now=ledger.now, limit=1_000)

    assert regained == 2
    assert ledger.lapsed() == [running.id]
    ledger.clock.advance(DAY)
    assert ledger.overdue() == [waiting.id]
    assert ledger.claims.regain(now=ledger.now, limit=1_000) == 0


def test_more_broken_rows_than_a_page_holds_do_not_keep_others_from_being_sent(
    sqlite: Ledger, tmp_path: Path
) -> None:
    sqlite.plan_edited()
    for number in range(7):
        sqlite.published(f"job-{number}")
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        connection.execute("UPDATE SchedulerExecution SET retry = 'x' WHERE id <= 6")
    sqlite.clock.advance(DAY)

    pages = [sqlite.overdue(limit=2) for _ in range(4)]

    assert [len(page) for page in pages] == [2, 2, 2, 1]


ROWS = [
    ("ExecutionAttempt", "exit_code = 'none'", "exit_code: 'none': Expected `int"),
    ("FailedTask", "failed_reason = x'00'", "failed_reason: 1 bytes: Expected `str`"),
    ("AttemptOutput", "stdout_bytes = 'many'", "stdout_bytes: 'many': Expected `int`"),
]


@pytest.mark.parametrize("spoilt", ROWS)
def test_another_row_that_does_not_fit_is_told_with_its_column_and_the_others_are_read(
    sqlite: Ledger,
    sqlite_shell: Shell,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    spoilt: tuple[str, str, str],
) -> None:
    table, change, why = spoilt
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    sqlite.plan_edited()
    archived, sound = sqlite.failed("broken"), sqlite.failed("sound")
    sqlite_shell(
        "INSERT INTO AttemptOutput (execution_id, attempt, stdout_head, stdout_tail,"
        " stdout_bytes, stderr_head, stderr_tail, stderr_bytes)"
        " SELECT execution_id, 1, '', '', 0, '', '', 0 FROM ExecutionAttempt"
    )
    sqlite_shell(f"UPDATE {table} SET {change} WHERE execution_id = {archived.execution_id}")

    read = (
        sqlite.records.attempts(archived.execution_id),
        sqlite.records.output(archived.execution_id),
        [one for one in sqlite.records.archive() if one.id != sound.id],
    )
    told = caplog.messages[-1]
    facts = SqlInspection(lambda: engine, sqlite.clock).inspect()
    engine.dispose()

    assert sorted(map(len, read)) == [0, 1, 1]
    assert told.startswith(f"A row cannot be read: {table} ")
    assert why in told
    assert isinstance(facts, LedgerFacts)
    assert facts.activity is not None
    [named] = facts.activity.broken_rows
    assert told.endswith(named)
    assert len(sqlite.records.attempts(sound.execution_id)) == 1
    assert sqlite.records.discard([sound.id], note="", now=sqlite.now) == 1


def test_of_a_broken_failure_no_message_is_made_and_the_others_have_theirs(
    sqlite: Ledger, sqlite_shell: Shell
) -> None:
    sqlite.plan_edited()
    broken, sound = sqlite.failed("broken"), sqlite.failed("sound")
    sqlite_shell(f"UPDATE FailedTask SET params = x'ff' WHERE id = {broken.id}")
    sqlite.clock.advance(GRACES.ended)

    found = sqlite.claims.overdue_ends(now=sqlite.now, graces=GRACES, limit=9)
    sqlite.claims.mark_ends_published([one.ticket for one in found])
    sqlite.clock.advance(GRACES.ended)
    again = sqlite.claims.overdue_ends(now=sqlite.now, graces=GRACES, limit=9)

    assert ([one.id for one in found], list(again)) == ([sound.id], [])


def test_a_replay_says_what_keeps_each_row_from_it(sqlite: Ledger, tmp_path: Path) -> None:
    sqlite.plan_edited()
    broken, twice, gone = (sqlite.failed(name) for name in ("broken", "twice", "gone"))
    sqlite.records.replay([twice.id], now=sqlite.now)
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        connection.execute(
            f"UPDATE SchedulerExecution SET retry = 'nonsense' WHERE id = {broken.execution_id}"
        )
        connection.execute(f"UPDATE FailedTask SET resolution = NULL WHERE id = {twice.id}")
        connection.execute(f"DELETE FROM SchedulerExecution WHERE id = {gone.execution_id}")
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    cronhare = Commands(tmp_path)

    ids = [str(one.id) for one in (broken, twice, gone)]
    ended = cronhare("failed", "replay", *ids, CRON_DATABASE_URL=url)
    replayed = ended.out
    shown = cronhare("executions", "show", str(broken.execution_id), CRON_DATABASE_URL=url).out

    said = dict(line.split(" cannot be replayed: ") for line in replayed.splitlines()[1:])
    row = f"execution {broken.execution_id}: its row is broken: SchedulerExecution: retry: not JSON"
    assert ended.status == 2  # nothing of it was replayed
    assert said[str(broken.id)].startswith(row)
    assert said[str(broken.id)].endswith("Mend it by hand, then replay it.")
    assert said[str(twice.id)] == f"execution {twice.execution_id}: it is claimed."
    assert said[str(gone.id)] == f"execution {gone.execution_id} is no more in the ledger."
    assert "problem" in shown
    assert "retry: not JSON" in shown
