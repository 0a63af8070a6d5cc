"""Quarantine of executions whose rows are broken or refused: they could not be started.

Each gets a row in the archive: nothing looks for it again, and nothing is lost unseen. Once a
person has mended its row, `failed replay` sends it on its way.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import Connection

from cronhare.application.logs import say
from cronhare.domain.execution import UNFINISHED, Execution, State
from cronhare.domain.lifecycle import transitions
from cronhare.domain.lifecycle.archive import archive
from cronhare.domain.retries.retry import Quarantine
from cronhare.domain.texts.listing import listed
from cronhare.ports.attempts import Apart, Busy, Superseded
from cronhare.ports.ledger import LedgerRefused

from ..mapping.archive_rows import ARCHIVE, archive_values
from ..mapping.execution_rows import BY_IDS, executions_of
from ..mapping.transition_columns import write_fields
from ..transactions.database import Database, repeatable

log = logging.getLogger(__name__)

#: What `transitions.set_apart` changes. All of it is written: what was read of a broken row may not
#: be what is there.
QUARANTINED_FIELDS: Final = (
    "state",
    "version",
    "owner",
    "lease_until",
    "next_attempt_at",
    "check_at",
    "held_by",
    "finished_at",
    "last_error",
)


def quarantine_broken(
    connection: Connection, found: Sequence[Execution], now: datetime, *, archives: bool = True
) -> Collection[int]:
    """Quarantine the broken ones of *found*, which the caller has locked; give their ids."""
    apart = set[int]()
    for execution in found:
        if execution.problem is None or execution.state not in UNFINISHED:
            continue
        quarantined = transitions.set_apart(execution, execution.problem, now=now)
        write_fields(connection, quarantined, *QUARANTINED_FIELDS)
        apart.add(execution.id)
        if archives:
            archived = archive(execution, Quarantine(execution.problem), None, now)
            connection.execute(ARCHIVE, archive_values(archived))
    return apart


def quarantine_still_broken(
    connection: Connection, found: Sequence[Execution], now: datetime
) -> Collection[int]:
    """Quarantine those of *found*, read in an earlier transaction, that are broken still."""
    ids = [execution.id for execution in found]
    rows: Any = connection.execute(BY_IDS.with_for_update(skip_locked=True), {"ids": ids})
    return quarantine_broken(connection, executions_of(connection, rows), now)


def as_quarantined(found: Sequence[Execution], apart: Collection[int]) -> Sequence[Execution]:
    """Give *found* as it is now that those of *apart* are quarantined."""
    return [
        msgspec.structs.replace(one, state=State.QUARANTINED) if one.id in apart else one
        for one in found
    ]


def pass_over(
    database: Database, found: Sequence[Execution], apart: Collection[int], now: datetime
) -> Collection[int]:
    """Pass over for a while the broken ones of *found* that are not in *apart*; give their ids.

    They are locked, refused, or were changed since. If they stay as they are, each look finds them
    again, and if they are 1,000, nothing else.
    """
    left = [one for one in found if one.problem is not None and one.id not in apart]
    for one in left:
        database.passed_over.note(one.id, now)
    if left:
        which = listed([str(one.id) for one in left])
        text = (
            f"Rows that are broken cannot be set apart now, and are passed over for a minute: "
            f"execution {which}: {left[0].problem}. Mend the rows, or see who holds them"
        )
        say(log, logging.ERROR, "execution.broken", text)
    return {one.id for one in left}


def quarantine_and_log(
    database: Database,
    execution_id: int,
    why: str,
    now: datetime,
    *,
    still: Callable[[Execution], bool],
) -> bool:
    """Do as `quarantine_refused`, and log it; answers whether it is quarantined now."""
    apart = quarantine_refused(database, execution_id, why, now, still=still)
    if isinstance(apart, Apart):
        how = "cannot even be" if apart is Apart.NEITHER else "is"
        text = f"Execution {execution_id} {how} quarantined: {why}"
        say(log, logging.ERROR, "execution.refused", text, execution=execution_id)
    return apart in {Apart.ARCHIVED, Apart.UNARCHIVED}


def quarantine_refused(
    database: Database,
    execution_id: int,
    why: str,
    now: datetime,
    *,
    still: Callable[[Execution], bool],
) -> Apart | Superseded | Busy:
    """Quarantine an execution of which the database refused something.

    Only if it is *still* what it was then: the refusal may be this replica's own, while another has
    gone on with it. If the row in the archive is refused as well, it is quarantined without one; if
    its own row is refused or locked, it is passed over for a while.
    """

    @repeatable
    def quarantine(*, archives: bool) -> Apart | Superseded | Busy:
        with database.write("setting an execution apart") as connection:
            statement = BY_IDS.with_for_update(skip_locked=True)
            rows: Any = connection.execute(statement, {"ids": [execution_id]})
            seen = executions_of(connection, rows)
            if not seen:
                database.passed_over.note(execution_id, now)
                return Busy()
            found = [one for one in seen if still(one)]
            for one in found:
                problem = one.problem or f"the ledger refuses what is to be written: {why}"
                broken = msgspec.structs.replace(one, problem=problem)
                quarantine_broken(connection, [broken], now, archives=archives)
            if not any(one.state in UNFINISHED for one in found):
                return Superseded()
            return Apart.ARCHIVED if archives else Apart.UNARCHIVED

    for archives in (True, False):
        with suppress(LedgerRefused):
            return quarantine(archives=archives)
    database.passed_over.note(execution_id, now)
    return Apart.NEITHER
