"""`cronhare nodes list`, whatever people wrote into the rows; and times at the calendar's ends."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.shell import Shell

FIRST, LAST = "0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.000000"
LATER = "2000-01-01 00:00:00.000000"
_NODE = (
    "INSERT INTO SchedulerNode (name, role, host, version, started_at, seen_at, queues, "
    "clock_offset_ms) "
)
_RUN = (
    "INSERT INTO SchedulerExecution (scheduler_id, execution_key, executed_at, container_id, "
    "due_at, state) SELECT id, 'k', executed_at, 'x', executed_at, 'succeeded' FROM Scheduler, "
    "(SELECT '{first}' AS executed_at) WHERE timezone = 'America/New_York'"
)
JOBS = """
[tasks.report]
id = 1
command = ["/bin/true"]
[schedules.report]
task = "report"
schedule = "0 0 1 1 *"
timezone = "America/New_York"
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Give a shell with a ledger of one schedule."""
    (tmp_path / "jobs.toml").write_text(JOBS)
    built = Shell(tmp_path)
    for preparing in (("db", "upgrade"), ("apply", "jobs.toml")):
        assert built(*preparing).status == 0
    return built


def write(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "cronhare.sqlite3")) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_times_at_the_ends_of_the_calendar_are_listed(
    zone: str, shell: Shell, tmp_path: Path
) -> None:
    for name, seen_at in (("ant", FIRST), ("bee", LAST)):
        write(
            tmp_path, f"{_NODE} VALUES ('{name}', 'up', 'x', '1', '{seen_at}', '{seen_at}', '', 0)"
        )
    write(tmp_path, _RUN.format(first=FIRST))

    listed = shell("nodes", "list", TZ=zone)
    explained = shell("explain", "1", TZ=zone)

    assert (listed.status, explained.status) == (0, 0)
    assert "ant" in listed.out
    assert "bee" in listed.out


def test_what_is_left_out_of_the_list_is_counted_below_it(shell: Shell, tmp_path: Path) -> None:
    write(
        tmp_path,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200) "
        f"{_NODE} SELECT 'ant-' || i, 'up', 'x', '1', '{FIRST}', '{FIRST}', '', 0 FROM n",
    )
    write(
        tmp_path,
        f"{_NODE} VALUES ('bee', x'ff', '', '', '{LATER}', '{LATER}', '', 0)",
    )

    table = shell("nodes", "list")
    rows = shell("nodes", "list", "--json")
    doctor = shell("doctor")

    unread = "201 others of 1,201 in all are not listed: these were seen last."
    broken = "1 row of SchedulerNode cannot be read; `cronhare doctor` says what to do."
    assert table.out.splitlines()[-2:] == [unread, broken]
    assert len(rows.json()) == 999
    told, *below = rows.err.splitlines()
    assert "A row cannot be read: SchedulerNode bee: role: 1 bytes: Expected `str`" in told
    assert below == [unread, broken]
    assert "999 alike: ant-1 (up) is silent" in doctor.out
    assert "201 other nodes reported themselves and are not looked at" in doctor.out
    assert "1 row of SchedulerNode cannot be read, and counts for nothing" in doctor.out
