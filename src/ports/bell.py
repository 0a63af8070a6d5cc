"""The bell that people's requests ring: what they have just claimed begins now."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from cronhare.domain.execution import Execution


class BellPort(Protocol):
    """Has what was just claimed begun at once, and not with a scheduler's next look.

    It decides nothing, and promises nothing: the ledger has what is claimed, and a scheduler that
    looks finds it, whether or not anybody hears. May be shared between threads.
    """

    @property
    def head_start(self) -> timedelta:
        """For how long schedulers leave to this bell what it is to ring for; zero for a call."""
        ...

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:
        """Ring for *executions*, as they were committed at *now*, the ledger's time.

        It takes seconds at most, and never raises: if nobody is reached, a log line says why where
        somebody should have been.
        """
        ...
