"""Letting go what is held back, from the scheduler's side: the backstop of all who do."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

import attrs

from cronhare.domain.execution import Execution
from cronhare.ports.claims import ClaimStorePort

from ..let_go_log import log_let_go
from ..publishing.execution_publisher import ExecutionPublisher

#: At so many gates a round looks. With more of them, the next round goes on from there.
GATES_PER_ROUND: Final = 200


@attrs.define(kw_only=True, eq=False)
class HeldBack:
    """Lets go what no worker has let go: it died, or a person changed a limit or a row."""

    _claims: ClaimStorePort
    _publisher: ExecutionPublisher
    _after: str = attrs.field(init=False, default="")

    def look(self, now: datetime) -> int:
        """Look at some gates at which something waits; answers how many executions go on."""
        gates = self._claims.gates(after=self._after, limit=GATES_PER_ROUND)
        self._after = gates[-1] if len(gates) == GATES_PER_ROUND else ""
        if not gates:
            return 0
        passed = self.let_go(gates, now)
        self._publisher.publish(passed, now=now)
        return len(passed)

    def let_go(self, gates: Collection[str], now: datetime) -> Sequence[Execution]:
        """Let go what may pass; it is still to be published."""
        answer = self._claims.let_go(gates, now=now)
        log_let_go(answer)
        return answer.executions
