"""What TAB gives, beside the commands and options that typer knows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.entrypoints.cli import completion
from tests.unit.entrypoints.test_commands_on_demand import HEAVY

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
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.sqlite3"
    engine = open_engine(url)
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql(ROWS)
    engine.dispose()
    return url


@pytest.fixture
def ledger(made_ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRON_DATABASE_URL", made_ledger)


@pytest.mark.usefixtures("ledger")
def test_names_of_the_settings_ledger_are_completed_letter_for_letter() -> None:
    assert completion.SCHEDULES("sales_") == [("sales_other", "")]
    assert completion.runs("sales-") == [("sales-report", "")]
    assert [name for name, _ in completion.QUEUES("")] == ["cron_scheduler", "reports"]
    assert [name for name, _ in completion.TASKS("s")] == ["sales"]
    # None of ours, such as the daily cleanup.
    assert [name for name, _ in completion.SCHEDULES("")] == [
        "back-up",
        "sales-report",
        "sales_other",
    ]


@pytest.mark.parametrize(
    "url",
    ["", "sqlite:///none.sqlite3", "sqlite:///text", "mysql+pymysql://a:b@127.0.0.1:9/c", "what?"],
)
def test_without_a_ledger_there_is_silence_and_no_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("no database at all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRON_DATABASE_URL", url)

    assert completion.SCHEDULES("") == []
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("sch", ["scheduler", "schedules"]),
        ("schedules pause s", ["sales-report", "sales_other"]),
    ],
)
@pytest.mark.usefixtures("ledger")
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
