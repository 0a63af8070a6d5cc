"""Boundary: a ledger file that somebody wrote into, as the commands read it.

SQLite holds any value in any column. Each entry spoils a copy of a ledger with one run of each kind
in it; each command then answers in sentences, and still lists what is innocent.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from tests.fuzz.commands import Commands, answer
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place

SCHEDULES = (("schedules",), ("schedules", "--json"), ("queues",), ("plan", "innocent.toml"))
RUNS = (
    ("executions", "list"),
    ("executions", "show", "1", "--json"),
    ("executions", "show", "1"),
    ("explain", "victim", "--at", "2026-01-01T00:00Z"),
    ("explain", "1", "--json"),
    ("queues", "--json"),
)
OUTPUT = (("executions", "logs", "1"),)
FAILED = (("failed", "list"), ("failed", "show", "1"), ("failed", "show", "1", "--json"))
NODES = (("nodes", "list"), ("nodes", "list", "--json"))
REPLAYS = (
    ("replays", "list"),
    ("replays", "list", "--json"),
    ("replays", "show", "1"),
    ("replays", "stop", "1"),
    ("replays", "resume", "1"),
)
LIMITS = (("budgets", "list"), ("breakers", "list", "--json"), ("breakers", "reset", "report", "2"))
REST = (("doctor",), ("apply", "innocent.toml"), ("run", "innocent"))

#: Which commands read a table.
READING = {
    "Scheduler": (*SCHEDULES, *RUNS, *REST),
    "SchedulerPlan": (*SCHEDULES, *RUNS[3:], *REST),
    "SchedulerExecution": (*RUNS, *OUTPUT, *REST),
    "ExecutionAttempt": (*RUNS, *OUTPUT),
    "AttemptOutput": OUTPUT,
    "FailedTask": (*FAILED, *REST),
    "SchedulerNode": (*NODES, *REST),
    "Replay": REPLAYS,
    "RetryBudget": (*LIMITS, *RUNS[3:], *REST),
    "CircuitBreaker": (*LIMITS, *RUNS[3:], *REST),
}
EVERYTHING = (*SCHEDULES, *RUNS, *OUTPUT, *FAILED, *NODES, *REPLAYS, *LIMITS, *REST)

JOBS = """
[tasks.innocent]
id = 1
command = ["/bin/true"]
[schedules.innocent]
task = "innocent"
schedule = "* * * * *"
[schedules.victim]
task = "innocent"
schedule = "0 0 1 1 *"
"""

_RUN = "INSERT INTO SchedulerExecution (scheduler_id, execution_key, executed_at, container_id, \
due_at, state, task_type, task_id, params, started_at, finished_at) SELECT id, '{state}', \
'2026-01-01 00:00:00.000000', 'x', '2026-01-01 00:00:00.000000', '{state}', 'worker', 1, '{{}}', \
'2026-01-01 00:00:00.000000', '2026-01-01 00:00:01.000000' FROM Scheduler WHERE name = 'victim'"

_ATTEMPTS = """
INSERT INTO ExecutionAttempt (execution_id, attempt, node, started_at, ending, error)
SELECT id, 1, 'x', '2026-01-01 00:00:00.000000', 'failed', '{"message": "x"}'
    FROM SchedulerExecution"""
_OUTPUTS = """
INSERT INTO AttemptOutput (execution_id, attempt, stdout_head, stdout_tail, stdout_bytes,
    stderr_head, stderr_tail, stderr_bytes)
SELECT id, 1, 'out', '', 3, 'err', '', 3 FROM SchedulerExecution"""
_FAILED = """
INSERT INTO FailedTask (execution_id, scheduler_id, schedule_name, execution_key, kind, task_type,
    task_id, queue, params, failed_at, failed_reason, attempts, retry_count)
SELECT id, scheduler_id, 'victim', 'k', 'failed', 'worker', 1, 'cron_scheduler', '{}',
    '2026-01-01 00:00:00.000000', 'x', 1, 0 FROM SchedulerExecution WHERE state = 'failed'"""
_NODE = """
INSERT INTO SchedulerNode (name, role, host, version, started_at, seen_at, queues, clock_offset_ms)
VALUES ('x-1-0a1b2c3d4e5f6071', 'up', 'x', '1', '2026-01-01 00:00:00.000000',
    '2026-01-01 00:00:00.000000', 'cron_scheduler', 0)"""
_BUDGET = """
INSERT INTO RetryBudget (queue, most, window_ms, granted, spent_since, last_at)
VALUES ('cron_scheduler', 1, 60000, '[[1767225600000000,1]]', '2026-01-01 00:00:00.000000',
    '2026-01-01 00:00:00.000000')"""
_BREAKER = """
INSERT INTO CircuitBreaker (task, window_ms, failures, next_failures, failed, succeeded, last_at)
VALUES ('worker 1', 60000, '[[1767225600000000,1]]', 1, 0, 0, '2026-01-01 00:00:00.000000')"""
_STATES = ("failed", "succeeded", "running", "skipped")

_REPLAY = """
INSERT INTO Replay (asked, created_at, state, reason, up_to, next_at) VALUES
    ('{"which": {}}', '2026-01-01 00:00:00.000000', 'stopped', 'x', 1, '2026-01-01 00:00:00.000000')
"""

CONTENTS = (
    *(_RUN.format(state=state) for state in _STATES),
    *(_ATTEMPTS, _OUTPUTS, _FAILED, _NODE, _REPLAY, _BUDGET, _BREAKER),
)

#: By table: what is written into each column of it, wherever that column has nothing to refer to.
VALUES = {
    "a blob": "X'FF00FE'",
    "an escape": "char(27) || '[2J' || char(7)",
    "brackets": "replace(hex(zeroblob(3000)), '00', '[')",
    "2^63-1": "9223372036854775807",
    "-1": "-1",
    "a fraction": "1e308",
}
COLUMNS = {
    "Scheduler": "schedule date_time params status description timezone retry misfire_policy "
    "misfire_window_ms misfire_cap overlap_policy timeout_ms jitter_ms starts_at ends_at queue "
    "every_ms gap_policy fold_policy retention "
    "source created_at updated_at worker_id task_type task_id topic no_listener request",
    "SchedulerPlan": "next_due_at planned_at problem",
    "SchedulerExecution": "execution_key executed_at container_id due_at state attempt deaths "
    "crashes version task_type task_id queue params retry timeout_ms owner lease_until "
    "next_attempt_at check_at published_at started_at finished_at last_error cancel_requested "
    "last_due_at missed topic no_listener",
    "ExecutionAttempt": "node started_at finished_at ending exit_code signal pid error "
    "peak_memory cpu_seconds left_running",
    "AttemptOutput": "stdout_head stdout_tail stdout_bytes stderr_head stderr_tail stderr_bytes "
    "as_of",
    "FailedTask": "execution_id schedule_name execution_key kind task_type task_id queue params "
    "failed_at failed_reason error attempts retry_count resolved_at resolution note "
    "check_at",
    "RetryBudget": "queue most window_ms granted spent_since last_at",
    "CircuitBreaker": "task task_name window_ms failures judged_at next_failures opened_at failed "
    "succeeded probe_at probe last_at",
    "SchedulerNode": "name role host version started_at seen_at queues concurrency running "
    "clock_offset_ms consuming drain_asked_at consumed_at source digest",
    "Replay": "asked created_at state reason up_to collected_to next_at ended_at waiting released "
    "failing succeeded failed refused",
}


class Ledgers(Commands):
    """Commands on a ledger that can be had as it was."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.write(JOBS, "innocent.toml")
        assert self("apply", "innocent.toml").status == 0
        self.ledger = folder / "cronhare.sqlite3"
        self.statements(*CONTENTS)
        self.kept = folder / "kept.sqlite3"
        shutil.copy(self.ledger, self.kept)

    def statements(self, *statements: str) -> None:
        """Write into the ledger as anybody may who has the file."""
        with closing(sqlite3.connect(self.ledger)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            for statement in statements:
                connection.execute(statement)
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def restore(self) -> None:
        """Have the ledger as it was."""
        for left in self.folder.glob("cronhare.sqlite3*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        shutil.copy(self.kept, self.ledger)

    def innocent(self) -> None:
        """See `Site.innocent`."""
        self.restore()
        said = self("schedules", "--json")
        if said.status != 0 or "innocent" not in {row["name"] for row in said.json()}:
            raise Mishandled(f"the innocent schedule is not listed: {said}")


def _column(ledgers: Ledgers, table: str, column: str, value: str) -> Answer:
    """Spoil a column of what is a victim's; whatever a command cannot say it refuses."""
    where = " WHERE name = 'victim'" if table == "Scheduler" else ""
    if table == "SchedulerPlan":
        where = " WHERE scheduler_id = (SELECT id FROM Scheduler WHERE name = 'victim')"
    if table == "SchedulerExecution":
        where = " WHERE id = 1"  # the key is unique
    ledgers.statements(f"UPDATE {table} SET {column} = {value}{where}")
    return _read(ledgers, READING[table])


def _read(ledgers: Ledgers, commands: Sequence[tuple[str, ...]]) -> Answer:
    answers = set()
    for command in commands:
        said = ledgers(*command)
        try:
            if said.status == 3 and command[0] == "doctor":  # it has found something to mend
                answers.add(Answer.HANDLED)
                continue
            answers.add(answer(said))
        except Mishandled as error:
            raise Mishandled(f"{' '.join(command)}: {error}") from error
    return Answer.REFUSED if Answer.REFUSED in answers else Answer.HANDLED


def _no_database(ledgers: Ledgers) -> None:
    ledgers.ledger.write_bytes(b"cron\n" * 4_000)


def _empty(ledgers: Ledgers) -> None:
    ledgers.ledger.write_bytes(b"")


def _half(ledgers: Ledgers) -> None:
    whole = ledgers.ledger.read_bytes()
    ledgers.ledger.write_bytes(whole[: len(whole) // 2])


def _folder(ledgers: Ledgers) -> None:
    ledgers.ledger.unlink()
    ledgers.ledger.mkdir()


def _holes(ledgers: Ledgers) -> None:
    whole = bytearray(ledgers.ledger.read_bytes())
    for page in range(3, len(whole) // 4096, 3):
        whole[page * 4096 : page * 4096 + 512] = bytes(512)
    ledgers.ledger.write_bytes(whole)


def _torn_log(ledgers: Ledgers) -> None:
    (ledgers.folder / "cronhare.sqlite3-wal").write_bytes(b"\xff" * 10_000)


def _statements(*statements: str) -> Callable[[Ledgers], None]:
    return lambda ledgers: ledgers.statements(*statements)


FILES: dict[str, Callable[[Ledgers], None]] = {
    "a file that is no database": _no_database,
    "half of a file": _half,
    "an empty file": _empty,
    "a folder": _folder,
    "pages of zeros": _holes,
    "a log of nonsense beside it": _torn_log,
    "a table that is missing": _statements("DROP TABLE SchedulerPlan"),
    "a column that is missing": _statements("ALTER TABLE FailedTask DROP COLUMN note"),
    "a revision of the future": _statements("UPDATE cronhare_schema SET version_num = '9999'"),
    "a revision with an escape": _statements("UPDATE cronhare_schema SET version_num = char(27)"),
    "no revision": _statements("DELETE FROM cronhare_schema"),
    "two revisions": _statements("INSERT INTO cronhare_schema VALUES ('0001')"),
    "a trigger that refuses": _statements(
        "CREATE TRIGGER no BEFORE INSERT ON SchedulerExecution BEGIN SELECT RAISE(ABORT, 'no'); END"
    ),
    "10,000 nodes": _statements(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        "INSERT INTO SchedulerNode (name, role, host, version, started_at, seen_at, queues, "
        "clock_offset_ms) SELECT 'n' || i, 'up', 'x', '1', at, at, '', 86400000 "
        "FROM n, (SELECT '9999-12-31 23:59:59.000000' AS at)"
    ),
    "10,000 schedules of no sense": _statements(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        "INSERT INTO Scheduler (name, schedule, status) SELECT 'x' || i, '[', 1 FROM n"
    ),
}


def _file(ledgers: Ledgers, spoil: Callable[[Ledgers], None]) -> Answer:
    spoil(ledgers)
    return _read(ledgers, EVERYTHING)


def _entries() -> Iterator[Entry[Ledgers]]:
    for name, spoil in FILES.items():
        yield Entry(name, partial(_file, spoil=spoil))
    numbered = enumerate((table, column) for table in COLUMNS for column in COLUMNS[table].split())
    for n, (table, column) in numbered:
        for m, (value, text) in enumerate(VALUES.items()):
            if (n + m) % 6 == 0:  # one value a column: all together would take an hour
                attempt = partial(_column, table=table, column=column, value=text)
                yield Entry(f"{value} in {table}.{column}", attempt)


@contextmanager
def ledgers(place: Place) -> Iterator[Ledgers]:
    """Open the site."""
    yield Ledgers(place.folder)


BOUNDARY = Boundary(name="more ledgers", at=ledgers, entries=list(_entries()))
