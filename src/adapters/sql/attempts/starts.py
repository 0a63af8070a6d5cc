"""Starting attempts: a batch is read and judged, then written with one statement per table."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from cronhare.domain.execution import STARTABLE, Execution
from cronhare.domain.lifecycle import start_fence
from cronhare.domain.lifecycle.transitions import is_held
from cronhare.ports.attempts import Busy, Refused, StartRequest
from cronhare.ports.ledger import LedgerRefused

from ..isolation.bisection import BatchResult, OnLocked
from ..isolation.quarantine import quarantine_and_log
from ..isolation.refusals import bisect_and_judge
from ..isolation.suspects import Kind, Suspects
from ..mapping.execution_rows import OWNED_BY_IDS, find_executions
from ..mapping.transition_columns import write_changes
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

    @repeatable
    def _start(
        self,
        requests: Sequence[StartRequest],
        *,
        now: datetime,
        node: str,
        lease: timedelta,
        kinds: dict[int, Kind],
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
                answers.append(answer)
            changed = [(found[id_], one) for id_, one in after.items()]
            again = [change for change in changed if is_held(change[0], node)]
            started = [change for change in changed if not is_held(change[0], node)]
            write_changes(connection, self._database.dialect, again)
            kinds.update((one.id, StartKind.of(one)) for one, _ in started)
            write_starts(connection, self._database.dialect, started, now=now, node=node)
            return BatchResult(answers, [one.id for one, _ in started])


def _judge(
    request: StartRequest, execution: Execution | None, *, node: str, now: datetime, until: datetime
) -> Execution | Refused:
    if execution is None:
        return Refused(f"execution {request.execution_id} is unknown", unknown=True)
    after = start_fence.start(
        execution, attempt=request.attempt, nacks=request.nacks, node=node, now=now, until=until
    )
    return Refused(after) if isinstance(after, str) else after
