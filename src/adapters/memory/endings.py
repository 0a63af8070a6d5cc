"""What the end of an attempt writes: its own row, its output, the archive, its execution."""

from datetime import datetime

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.moves import end as domain_end
from cronhare.domain.moves import overruled
from cronhare.domain.retry import Fail, Quarantine
from cronhare.ports.attempts import Finish
from cronhare.ports.records import Archived, Output
from cronhare.ports.runner import Captured, Ran

from .history import History
from .ledger import MemoryLedger


def end(ledger: MemoryLedger, execution: Execution, finish: Finish, now: datetime) -> State:
    """Write the end of a running attempt; answers the state that its execution is in then.

    A cancel that was asked for wins over whatever came of the attempt.
    """
    verdict = overruled(execution, finish.verdict)
    outcome = finish.ran.outcome
    _record(ledger.history, execution, finish.ran, now)
    if isinstance(verdict, Fail | Quarantine):
        ledger.keep(Archived.of(execution, verdict, outcome.error, now, check_at=now))
    ended = domain_end(execution, verdict, outcome.ending, now=now)
    return ledger.history.move(execution, ended).state


def _record(history: History, execution: Execution, ran: Ran, now: datetime) -> None:
    outcome = ran.outcome
    attempt = history.attempts(execution.id)[execution.attempt]
    history.record(
        attrs.evolve(
            attempt,
            finished_at=now,
            ending=outcome.ending.value,
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            pid=ran.pid,
            error=None if outcome.error is None else outcome.error.as_json(),
            peak_memory=ran.peak_memory,
            cpu_seconds=ran.cpu_seconds,
        )
    )
    if (ran.stdout, ran.stderr) != (Captured(), Captured()):
        output = Output(attempt=attempt.attempt, stdout=ran.stdout, stderr=ran.stderr)
        history.keep_output(execution.id, output)
