"""Notes of who holds a message that came again; see `domain.retries.redeliveries`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from cronhare.domain.retries.redeliveries import Hold, Holder


class RedeliveryStorePort(Protocol):
    """Keeps the notes. Every method may raise `LedgerUnavailable`, and can be repeated.

    What tests/integration/test_redelivery_store_contract.py does not assert is not promised.
    """

    def hold(self, message: str, *, holder: Holder, now: datetime) -> Sequence[Hold]:
        """Note that *holder* takes a message; answers the notes of the others, the oldest first.

        Each tells when its node reported itself last. Notes of that message that are older than
        `KEPT_FOR` are forgotten.
        """
        ...

    def let_go(self, message: str, *, node: str) -> None:
        """Take back the note of a node, if there is one."""
        ...
