"""Executions whose rows somebody spoilt: what waits for its start can have none, and is set apart.

They are quarantined, with a row in the archive: nothing looks for them again, nothing is lost
without a word, and once a person has mended the row, `failed replay` sends them on their way.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, bindparam, insert, update

from cronhare.application.logs import say
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.retry import Quarantine
from cronhare.ports.ledger import LedgerRefused
from cronhare.ports.records import Archived

from .database import Database, repeatable
from .rows import BY_IDS, executions_of
from .tables import executions, failed_tasks
from .types import UtcDateTime
from .vendor import Vendor

log = logging.getLogger(__name__)

_SET_APART: Final = (
    update(executions)
    .where(executions.c.id == bindparam("broken_id"))
    .values(
        state=State.QUARANTINED.value,
        last_error=bindparam("problem"),
        finished_at=bindparam("at", type_=UtcDateTime),
        owner=None,
        lease_until=None,
        next_attempt_at=None,
        check_at=None,
        version=1,  # what stands there may be no number, or the last
    )
)
_ARCHIVE: Final = insert(failed_tasks)
_ARCHIVED: Final = [column.name for column in failed_tasks.c if column.name != "id"]


def set_apart(
    connection: Connection, found: Sequence[Execution], now: datetime, *, archives: bool = True
) -> None:
    """Quarantine those of *found* that are broken; the caller's transaction holds them."""
    for execution in found:
        if execution.problem is None or execution.state not in UNFINISHED:
            continue
        asked = {"broken_id": execution.id, "problem": execution.problem, "at": now}
        connection.execute(_SET_APART, asked)
        if not archives:
            continue
        archived = Archived.of(execution, Quarantine(execution.problem), None, now)
        connection.execute(_ARCHIVE, {name: getattr(archived, name) for name in _ARCHIVED})


def set_apart_now(
    connection: Connection, vendor: Vendor, found: Sequence[Execution], now: datetime
) -> None:
    """Quarantine those of *found* that are broken still; they were found in a former read."""
    ids = [execution.id for execution in found if execution.problem is not None]
    if ids:
        rows: Any = connection.execute(vendor.held(BY_IDS, pass_over=True), {"ids": ids})
        set_apart(connection, executions_of(connection, rows), now)


def set_apart_refused(database: Database, execution_id: int, why: str, now: datetime) -> None:
    """Quarantine an execution of which the database refused something; it says why.

    Where it refuses the row in the archive as well, the execution's own row is all that tells.
    """

    @repeatable
    def quarantine(*, archives: bool) -> None:
        with database.write("setting an execution apart") as connection:
            rows: Any = connection.execute(database.vendor.held(BY_IDS), {"ids": [execution_id]})
            for found in executions_of(connection, rows):
                problem = found.problem or f"the ledger refuses what is to be written: {why}"
                broken = msgspec.structs.replace(found, problem=problem)
                set_apart(connection, [broken], now, archives=archives)

    for archives in (True, False):
        with suppress(LedgerRefused):
            quarantine(archives=archives)
            text = f"Execution {execution_id} is quarantined: {why}"
            say(log, logging.ERROR, "execution.refused", text, execution=execution_id)
            return
    text = f"Execution {execution_id} cannot even be quarantined: {why}"
    say(log, logging.ERROR, "execution.refused", text, execution=execution_id)
