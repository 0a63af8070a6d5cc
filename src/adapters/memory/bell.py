"""A bell that nobody hears."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from cronhare.domain.execution import Execution


class SilentBell:
    """Leaves what is claimed to a scheduler's next look. Satisfies `BellPort`.

    So it is where neither a broker nor a `cronhare up` on a ledger's file can be told.
    """

    head_start = timedelta(0)

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """See `BellPort.ring`."""
