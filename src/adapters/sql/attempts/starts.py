"""Starting attempts: a batch is read and judged, then written with one statement per table."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

import attrs

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.lifecycle import start_fence
from cronhare.domain.lifecycle.catching_up import CatchUp
from cronhare.domain.lifecycle.gates import gates_of
from cronhare.domain.lifecycle.transitions import is_held
from cronhare.ports.attempts import Busy, Refused, StartAnswer, StartRequest

from ..gates.gate_rows import MissingGates, make_gates
from ..gates.passing_starts import GatedStarts, pass_gates
from ..isolation import Written, set_apart, write_each
from ..limits.catching_up import SpreadStarts
from ..mapping.execution_rows import OWNED_BY_IDS, find_executions
from ..mapping.transition_columns import Change, write_changes
from ..transactions.database import StorePart, repeatable_unless_locked
from .standing import locked_elsewhere
from .start_writes import write_starts

_UNLOCKED = OWNED_BY_IDS.with_for_update(skip_locked=True)


class AttemptStarts(StorePart):
    """The part of `AttemptStorePort` that starts attempts."""

    def start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None = None,
    ) -> Sequence[StartAnswer]:
        def refused(request: StartRequest, why: Exception) -> Sequence[StartAnswer]:
            def still(found: Execution) -> bool:
                is_to_start = found.state in STARTABLE or is_held(found, node)
                return is_to_start and found.attempt == request.attempt

            set_apart(self._database, request.execution_id, str(why), now, still=still)
            return [Refused(str(why))]

        return write_each(
            requests,
            partial(self._start, now=now, node=node, lease=lease, catch_up=catch_up),
            refused=refused,
            locked=lambda _: [Busy()],
        )

    def _start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None,
    ) -> Written[StartAnswer]:
        """Start these; what has to pass gates that have no row yet is `Busy` once they are made."""
        start = partial(
            self._start_these, requests, now=now, node=node, lease=lease, catch_up=catch_up
        )
        try:
            return start(without=frozenset())
        except MissingGates as missing:
            make_gates(self._database, missing.names, now)
        try:
            return start(without=frozenset())
        except MissingGates as missing:  # somebody keeps them from being made
            return start(without=frozenset(missing.names))

    @repeatable_unless_locked
    def _start_these(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        catch_up: CatchUp | None,
        without: Collection[str],
    ) -> Written[StartAnswer]:
        dialect = self._database.dialect
        with self._database.write("starting attempts") as connection:
            ids = {request.execution_id for request in requests}
            found = find_executions(connection, _UNLOCKED, ids, read=dialect.read)
            busy = locked_elsewhere(connection, ids - found.keys())
            judged = _judge_all(requests, found, busy, node=node, now=now, until=now + lease)
            spread = SpreadStarts(connection, judged.started, catch_up, now)
            gated = GatedStarts(started=spread.started)
            if any(gates_of(before) for before, _ in spread.started):  # nearly always there is none
                gated = pass_gates(connection, dialect, spread.started, now, without)
            spread.keep(dialect, busy=gated.busy)
            kept_back, started = [*gated.held, *spread.deferred], gated.started
            write_changes(connection, dialect, [*judged.others, *kept_back])
            write_starts(connection, dialect, started, now=now, node=node)
            answers = [gated.answer_of(spread.answer_of(answer)) for answer in judged.answers]
            return Written(answers, changed=bool(started or kept_back))


@attrs.frozen(kw_only=True)
class _Judged:
    """What the start fence says: which attempts *started* for the first time, and *others*.

    Those were started before, and their leases begin anew; or they have expired.
    """

    answers: Sequence[StartAnswer]
    started: Sequence[Change]
    others: Sequence[Change]


def _judge_all(
    requests: Sequence[StartRequest],
    found: Mapping[int, Execution],
    busy: Collection[int],
    *,
    node: str,
    now: datetime,
    until: datetime,
) -> _Judged:
    answers: list[StartAnswer] = []
    after: dict[int, Execution] = {}
    for request in requests:
        if request.execution_id in busy:
            answers.append(Busy())
            continue
        known = after.get(request.execution_id) or found.get(request.execution_id)
        answer = _judge(request, known, node=node, now=now, until=until)
        if isinstance(answer, Execution):
            after[answer.id] = answer
            if answer.state is State.SKIPPED:
                answer = Refused(str(answer.last_error))
        answers.append(answer)
    started: list[Change] = []
    others: list[Change] = []
    for id_, one in after.items():
        before = found[id_]
        is_new = not is_held(before, node) and one.state is not State.SKIPPED
        (started if is_new else others).append((before, one))
    return _Judged(answers=answers, started=started, others=others)


def _judge(
    request: StartRequest, execution: Execution | None, *, node: str, now: datetime, until: datetime
) -> Execution | Refused:
    if execution is None:
        return Refused(f"execution {request.execution_id} is unknown", unknown=True)
    after = start_fence.start(
        execution, attempt=request.attempt, nacks=request.nacks, node=node, now=now, until=until
    )
    return Refused(after) if isinstance(after, str) else after
