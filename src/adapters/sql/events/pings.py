"""Runs that have begun or ended lately, for those who are pinged; and how they ended."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, Select, bindparam, select, union_all

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.pings import ENDS, LONGEST_TAIL, RunEnd
from cronhare.ports.events import Page

from ..mapping.execution_rows import EXECUTION
from ..schema.tables import attempts, executions, outputs
from ..schema.types import UtcDateTime
from ..transactions.database import repeatable
from .findings import Findings

#: Runs that one statement asks for: each may have written 256 KiB.
_AT_ONCE: Final = 50

_OF_THESE: Final = select(executions.c.id).where(
    executions.c.scheduler_id.in_(bindparam("ids", expanding=True))
)
#: Each half is a range of the index (scheduler_id, finished_at), however long the history is.
_LATELY: Final = union_all(
    _OF_THESE.where(executions.c.finished_at.is_(None)),
    _OF_THESE.where(executions.c.finished_at >= bindparam("since", type_=UtcDateTime)),
).subquery()
#: No look-up by the key of all history.
_ID: Final = executions.c.id + 0

_BEGUN_OR_ENDED: Final = (
    EXECUTION.where(
        executions.c.id.in_(select(_LATELY.c.id)),
        bindparam("after") < _ID,
        executions.c.state.in_(sorted({State.RUNNING, *ENDS})),
    )
    .order_by(_ID)
    .limit(bindparam("limit"))
)
_ENDS: Final[Select[Any]] = (
    select(
        executions.c.id,
        attempts.c.exit_code,
        attempts.c.node,
        *(
            outputs.c[f"{stream}_{part}"]
            for stream in ("stdout", "stderr")
            for part in ("head", "tail")
        ),
    )
    .select_from(
        executions.join(
            attempts,
            (attempts.c.execution_id == executions.c.id)
            & (attempts.c.attempt == executions.c.attempt),
        ).outerjoin(
            outputs,
            (outputs.c.execution_id == executions.c.id)
            & (outputs.c.attempt == executions.c.attempt),
        )
    )
    .where(executions.c.id.in_(bindparam("ids", expanding=True)))
)


class Pings(Findings):
    """The part of `EventStorePort` that finds what services are pinged of."""

    @repeatable
    def begun_or_ended(
        self, scheduler_ids: Collection[int], *, since: datetime, after: int, limit: int
    ) -> Page:
        asked = {"since": since, "after": after, "limit": limit}
        return self._page(_BEGUN_OR_ENDED, scheduler_ids, asked)

    @repeatable
    def run_ends(self, execution_ids: Collection[int]) -> Mapping[int, RunEnd]:
        ids, found = sorted(execution_ids), dict[int, RunEnd]()
        with self._database.read("reading how runs ended") as connection:
            for at in range(0, len(ids), _AT_ONCE):
                for row in connection.execute(_ENDS, {"ids": ids[at : at + _AT_ONCE]}):
                    found[row.id] = _end(row)
        return found


def _end(row: Row[Any]) -> RunEnd:
    streams = ((row.stderr_tail or row.stderr_head), (row.stdout_tail or row.stdout_head))
    stderr, stdout = (text[-LONGEST_TAIL:] if text and text.strip() else "" for text in streams)
    return RunEnd(exit_code=row.exit_code, stderr=stderr, stdout=stdout, node=row.node)
