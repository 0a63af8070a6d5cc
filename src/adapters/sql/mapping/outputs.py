"""What attempts wrote, on its way into its table."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, text

from cronhare.ports.runner import AttemptResult, Written

from ..dialect import Dialect
from ..schema.tables import outputs
from ..schema.types import UtcDateTime

_NAMES = [column.name for column in outputs.c]
#: As SQLite and MySQL have it, and where nothing is replaced as cheap as an INSERT.
REPLACE = text(
    f"REPLACE INTO {outputs.name} ({', '.join(_NAMES)})"  # noqa: S608 - names of our own
    f" VALUES ({', '.join(f':{name}' for name in _NAMES)})"
).bindparams(bindparam("as_of", type_=UtcDateTime))


def keep_outputs(connection: Connection, dialect: Dialect, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows of `output_values`, each in place of what its attempt had written before."""
    if rows:
        dialect.keep_outputs(connection, rows)


def output_values(
    execution_id: int, attempt: int, wrote: AttemptResult | Written, *, as_of: datetime | None
) -> dict[str, Any]:
    """Give one attempt's row."""
    return {
        "execution_id": execution_id,
        "attempt": attempt,
        "stdout_head": wrote.stdout.head,
        "stdout_tail": wrote.stdout.tail,
        "stdout_bytes": wrote.stdout.bytes,
        "stderr_head": wrote.stderr.head,
        "stderr_tail": wrote.stderr.tail,
        "stderr_bytes": wrote.stderr.bytes,
        "as_of": as_of,
        "stdout_lines": wrote.stdout.lines,
        "stderr_lines": wrote.stderr.lines,
        "progress": wrote.report.progress,
        "progress_text": wrote.report.progress_text,
        "result": wrote.report.result,
        "result_problem": wrote.report.result_problem,
    }
