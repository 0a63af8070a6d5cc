"""The start fence at the gates: which attempts start, and which are held back."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import attrs
from sqlalchemy import Connection

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.gates import Blocked, gates_of, place_in_line
from cronhare.domain.lifecycle.transitions import hold
from cronhare.ports.attempts import Busy, Refused, StartAnswer

from ..dialect import Dialect
from ..mapping.transition_columns import Change
from .gate_rows import GateRows


@attrs.frozen(kw_only=True)
class GatedStarts:
    """What passed its gates, what is held back, and what could not be judged now."""

    started: Sequence[Change]
    held: Sequence[Change] = ()
    blocked: Mapping[int, Blocked] = attrs.field(factory=dict[int, Blocked])
    busy: frozenset[int] = frozenset()

    def answer_of(self, answer: StartAnswer) -> StartAnswer:
        """Give what is answered now in the place of a start."""
        if not isinstance(answer, Execution):
            return answer
        if answer.id in self.busy:
            return Busy()
        blocked = self.blocked.get(answer.id)
        return answer if blocked is None else Refused(f"held: {blocked.reason}", gate=blocked.gate)


def pass_gates(
    connection: Connection,
    dialect: Dialect,
    started: Sequence[Change],
    now: datetime,
    without: Collection[str],
) -> GatedStarts:
    """Let starts pass their gates, those first that were due first, and write who has a place.

    Their executions are locked. Gates are locked without waiting; those in *without* count as
    locked by others.

    Raises:
        MissingGates: some have no row.
    """
    free = [change for change in started if not gates_of(change[0])]
    gated = [change for change in started if gates_of(change[0])]
    names = {name for before, _ in gated for name in gates_of(before)}
    rows = GateRows(connection, names.difference(without), lines=True)
    closed = rows.busy.union(without)
    judged = [change for change in gated if closed.isdisjoint(gates_of(change[0]))]
    rows.read_rules({before.scheduler_id for before, _ in judged})
    blocked: dict[int, Blocked] = {}
    for before, _ in sorted(judged, key=lambda change: place_in_line(change[0])):
        if (why := rows.gates.start(before)) is not None:
            blocked[before.id] = why
    rows.write(dialect, now)
    return GatedStarts(
        started=[*free, *(change for change in judged if change[0].id not in blocked)],
        held=[
            (before, hold(before, blocked[before.id].gate))
            for before, _ in judged
            if before.id in blocked
        ],
        blocked=blocked,
        busy=frozenset(before.id for before, _ in gated) - {before.id for before, _ in judged},
    )
