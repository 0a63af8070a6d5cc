"""Starting attempts: a batch is read and judged, then written with one statement per table."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

from cronhare.domain.execution import STARTABLE, Execution, State
from cronhare.domain.lifecycle import start_fence
from cronhare.domain.lifecycle.gates import gates_of
from cronhare.domain.lifecycle.transitions import is_held
from cronhare.ports.attempts import Busy, Refused, StartRequest
from cronhare.ports.ledger import LedgerRefused

from ..gates.gate_rows import MissingGates, make_gates
from ..gates.passing_starts import pass_gates
from ..isolation.bisection import BatchResult, OnLocked
from ..isolation.quarantine import quarantine_and_log
from ..isolation.refusals import bisect_and_judge
from ..isolation.suspects import Kind, Suspects
from ..mapping.execution_rows import OWNED_BY_IDS, find_executions
from ..mapping.transition_columns import Change, write_changes
from ..transactions.database import Database, StorePart, repeatable
from .standing import locked_elsewhere
from .start_writes import StartKind, write_starts
from .trial_start import could_start_another

_UNLOCKED = OWNED_BY_IDS.with_for_update(skip_locked=True)


class AttemptStarts(StorePart):
    """The part of `AttemptStorePort` that starts attempts."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._refused_starts = Suspects()
        self._locked_starts = OnLocked[StartRequest, Execution | Refused | Busy](
            lambda _: Busy(), unasked=lambda _: Busy(is_asked=False)
        )

    def start(
        self, requests: Sequence[StartRequest], *, now: datetime, node: str, lease: timedelta
    ) -> Sequence[Execution | Refused | Busy]:
        """See `AttemptStorePort.start`."""

        def alone(request: StartRequest, refusal: LedgerRefused) -> Execution | Refused | Busy:
            def still(found: Execution) -> bool:
                is_to_start = found.state in STARTABLE or is_held(found, node)
                return is_to_start and found.attempt == request.attempt

            quarantine_and_log(self._database, request.execution_id, str(refusal), now, still=still)
            return Refused(str(refusal))

        kinds: dict[int, Kind] = {}
        return bisect_and_judge(
            requests,
            partial(self._start, now=now, node=node, lease=lease, kinds=kinds),
            alone=alone,
            suspects=self._refused_starts,
            on_locked=self._locked_starts,
            id_of=lambda request: request.execution_id,
            kinds=kinds,
            could_another=partial(
                could_start_another,
                self._database,
                {request.execution_id for request in requests},
                now=now,
                node=node,
                until=now + lease,
            ),
        )

    def _start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        kinds: dict[int, Kind],
    ) -> BatchResult[Execution | Refused | Busy]:
        """Start these; what has to pass gates that have no row yet is `Busy` once they are made."""
        start = partial(self._start_these, requests, now=now, node=node, lease=lease, kinds=kinds)
        try:
            return start(without=frozenset())
        except MissingGates as missing:
            make_gates(self._database, missing.names, now)
        try:
            return start(without=frozenset())
        except MissingGates as missing:  # somebody keeps them from being made
            return start(without=frozenset(missing.names))

    @repeatable
    def _start_these(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        kinds: dict[int, Kind],
        without: Collection[str],
    ) -> BatchResult[Execution | Refused | Busy]:
        with self._database.write("starting attempts") as connection:
            ids = {request.execution_id for request in requests}
            found = find_executions(connection, _UNLOCKED, ids, read=self._database.dialect.read)
            busy = locked_elsewhere(connection, ids - found.keys())
            answers: list[Execution | Refused | Busy] = []
            after: dict[int, Execution] = {}
            for request in requests:
                if request.execution_id in busy:
                    answers.append(Busy())
                    continue
                known = after.get(request.execution_id) or found.get(request.execution_id)
                answer = _judge(request, known, node=node, now=now, until=now + lease)
                if isinstance(answer, Execution):
                    after[answer.id] = answer
                    if answer.state is State.SKIPPED:
                        answer = Refused(str(answer.last_error))
                answers.append(answer)
            changed = [(found[id_], one) for id_, one in after.items()]
            again = [change for change in changed if is_held(change[0], node)]
            over = [change for change in changed if change[1].state is State.SKIPPED]
            started = [
                change
                for change in changed
                if not is_held(change[0], node) and change[1].state is not State.SKIPPED
            ]
            held: Sequence[Change] = ()
            if any(gates_of(before) for before, _ in started):  # nearly always there are none
                gated = pass_gates(connection, self._database.dialect, started, now, without)
                answers = [gated.answer_of(answer) for answer in answers]
                started, held = gated.started, gated.held
            kinds.update((one.id, StartKind.of(one, held=True)) for one, _ in held)
            write_changes(connection, self._database.dialect, [*again, *over, *held])
            kinds.update((one.id, StartKind.of(one)) for one, _ in started)
            write_starts(connection, self._database.dialect, started, now=now, node=node)
            return BatchResult(answers, [one.id for one, _ in (*started, *held)])


def _judge(
    request: StartRequest, execution: Execution | None, *, node: str, now: datetime, until: datetime
) -> Execution | Refused:
    if execution is None:
        return Refused(f"execution {request.execution_id} is unknown", unknown=True)
    after = start_fence.start(
        execution, attempt=request.attempt, nacks=request.nacks, node=node, now=now, until=until
    )
    return Refused(after) if isinstance(after, str) else after
