"""The limits of retries, in memory."""

from datetime import datetime

import attrs

from cronhare.domain.execution import Execution, State

from .execution_table import ExecutionTable


@attrs.frozen
class MemoryEvidence:
    """Satisfies `Evidence`. The caller holds the ledger's lock."""

    _executions: ExecutionTable

    def successes(self, of: Execution, *, since: datetime, enough: int) -> int:
        """See `Evidence.successes`."""
        found = sum(
            each.task == of.task and each.finished_at is not None and each.finished_at >= since
            for each in self._executions.in_states({State.SUCCEEDED})
        )
        return min(found, enough)

    def state_of(self, execution_id: int) -> State | None:
        """See `Evidence.state_of`."""
        found = self._executions.get(execution_id)
        return None if found is None else found.state
