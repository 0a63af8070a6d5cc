"""Keeping the wanted topology there: declared at the start and after each loss."""

import threading
from collections.abc import Iterable
from contextlib import suppress

from cronhare.ports.broker import BrokerUnavailable

from ..connection.address import Address
from .declaration import Declared
from .declaring import declare
from .wanted import WantedTopology


class TopologyDeclarer:
    """Declares what is *wanted*, as often as asked. Safe to share between threads."""

    def __init__(self, address: Address, wanted: WantedTopology) -> None:
        """Nothing is declared yet."""
        self._address = address
        self._wanted = wanted
        self._declaring = threading.Lock()

    def refresh(self) -> None:
        """Declare, unless that was done a moment ago and nobody has doubted it since.

        A queue that is refused is told in the log, and keeps nobody from using the others.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what all need.
        """
        with self._declaring:  # who has waited for another's declaration needs none of his own
            if not self._wanted.is_fresh:
                self._declare()

    def restore(self, queues: Iterable[str]) -> None:
        """Messages for these queues came back: have those that are sent again find ours there.

        Somebody has deleted one beside a sound connection, and may do so all the time: it is
        declared not more often than after losses of the connection.
        """
        if any(map(self._wanted.knows, queues)):
            with suppress(BrokerUnavailable):  # the connections tell of it
                self.refresh()

    def declare(self) -> None:
        """Make sure that everything is there. What differs is logged once and used as it is.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
        """
        with self._declaring:
            found = self._declare()
        found.check()

    def _declare(self) -> Declared:
        wanted = self._wanted
        topology, began = wanted.topology, wanted.now()
        found = declare(
            self._address,
            topology,
            queue_type=wanted.queue_type,
            deduplication=wanted.deduplication,
        )
        wanted.note(topology, found, began=began)
        return found
