"""What the end of an attempt writes: its own row, its execution's, its output, the archive."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Update, bindparam, update

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import Archived, archive_end
from cronhare.domain.lifecycle.transitions import end, overruled
from cronhare.domain.retries.outcome import Ending
from cronhare.ports.attempts import Finish

from ..dialect import Dialect
from ..mapping.archive_rows import ARCHIVE, archive_values
from ..mapping.outputs import keep_outputs, output_values
from ..mapping.transition_columns import write_changes
from ..schema.tables import attempts
from ..schema.types import UtcDateTime

_THIS_ATTEMPT = (
    attempts.c.execution_id == bindparam("ended_id"),
    attempts.c.attempt == bindparam("ended_attempt"),
)
_END_ATTEMPT = (
    update(attempts)
    .where(*_THIS_ATTEMPT)
    .values(
        finished_at=bindparam("finished_at", type_=UtcDateTime),
        exit_code=bindparam("exit_code"),
        pid=bindparam("pid"),
        peak_memory=bindparam("peak_memory"),
        cpu_seconds=bindparam("cpu_seconds"),
        left_running=bindparam("left_running"),
    )
)
# A statement of its own, as it is rare: MySQL writes long texts of many rows by way of a file.
_END_BADLY = _END_ATTEMPT.values(
    ending=bindparam("ending"), signal=bindparam("signal"), error=bindparam("error")
)
_END_WELL = _END_ATTEMPT.values(ending=Ending.SUCCEEDED.value)


def write_ends(
    connection: Connection,
    dialect: Dialect,
    ended: list[tuple[Execution, Finish]],
    *,
    now: datetime,
) -> list[State]:
    """Write the ends of running attempts, each paired with its execution as it is now.

    Answers the states that the executions are in then.
    """
    if not ended:
        return []
    changed = [(execution, _ended(execution, finish, now)) for execution, finish in ended]
    write_changes(connection, dialect, changed)
    _write_attempts(connection, dialect, ended, now)
    outputs = [
        output_values(one.id, one.attempt, finish.ran, as_of=None)
        for one, finish in ended
        if finish.ran.has_output
    ]
    keep_outputs(connection, dialect, outputs)
    failed = [archived for pair in ended if (archived := _archived(*pair, now))]
    if failed:
        connection.execute(ARCHIVE, list(map(archive_values, failed)))
    return [after.state for _, after in changed]


def _ended(execution: Execution, finish: Finish, now: datetime) -> Execution:
    verdict = overruled(execution, finish.verdict)
    return end(execution, verdict, finish.ran.outcome.ending, now=now)


def _write_attempts(
    connection: Connection,
    dialect: Dialect,
    ended: Sequence[tuple[Execution, Finish]],
    now: datetime,
) -> None:
    rows: dict[Update, list[dict[str, Any]]] = {_END_WELL: [], _END_BADLY: []}
    for execution, finish in ended:
        succeeded = finish.ran.outcome.ending is Ending.SUCCEEDED
        ran, outcome = finish.ran, finish.ran.outcome
        row = {
            "ended_id": execution.id,
            "ended_attempt": execution.attempt,
            "finished_at": now,
            "ending": outcome.ending.value,
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "pid": ran.pid,
            "error": None if outcome.error is None else outcome.error.as_json(),
            "peak_memory": ran.peak_memory,
            "cpu_seconds": ran.cpu_seconds,
            "left_running": ran.left_running,
        }
        rows[_END_WELL if succeeded else _END_BADLY].append(row)
    for statement, values in rows.items():
        if values:
            dialect.update_many(connection, statement, values)


def _archived(execution: Execution, finish: Finish, now: datetime) -> Archived | None:
    verdict = overruled(execution, finish.verdict)
    return archive_end(execution, verdict, finish.ran.outcome.error, now)
