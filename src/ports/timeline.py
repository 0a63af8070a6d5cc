"""What ran when: the attempts of a window, for pictures of a day."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import attrs

from cronhare.domain.overlaps import Ran


@attrs.frozen(kw_only=True)
class RanInWindow:
    """Attempts, those of the newest executions first.

    If there were more than were asked for, those of executions that were claimed before *since* are
    left out; None if all are here.
    """

    ran: Sequence[Ran]
    since: datetime | None = None


class TimelineStorePort(Protocol):
    """Finds what ran in a window. Its method may raise `LedgerUnavailable`.

    What tests/integration/test_timeline_store_contract.py does not assert is not promised.
    """

    def ran(self, since: datetime, until: datetime, *, limit: int) -> RanInWindow:
        """List the attempts that ran from *since* to before *until*, at most *limit*.

        It costs the more the more was claimed in the window and in the day before it, but never
        more than so many rows of that day. An attempt of an execution that was claimed still
        earlier is left out: one that ran for longer than a day, or was replayed.
        """
        ...
