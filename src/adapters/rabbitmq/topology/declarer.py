"""Declaring the desired topology through pika, at the start and after each loss."""

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from cronhare.ports.broker import BrokerUnavailable

from ..connection.address import Address
from ..connection.blocking import connect
from ..connection.errors import PIKA_ERRORS, why_unreachable
from .client import TopologyClient
from .declaration import Declared, declaration
from .desired import DesiredTopology


class TopologyDeclarer:
    """Declares what is missing of the *desired* topology. Safe to share between threads.

    A declaration takes a connection of its own, some 60 short round trips, and can be repeated at
    any time. A queue that the broker fails over costs another connection, and is left out as well.
    """

    def __init__(self, address: Address, desired: DesiredTopology) -> None:
        """Nothing is declared yet."""
        self._address = address
        self._desired = desired
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Declare, unless that was done a moment ago and the result has not been invalidated.

        A queue that is refused is logged, and the others are used.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make an exchange.
        """
        with self._lock:  # who has waited for another's declaration needs none of his own
            if not self._desired.is_fresh:
                self._declare()

    def restore(self, queues: Iterable[str]) -> None:
        """Declare again if one of these queues, for which messages were returned, is ours.

        It was deleted beside a sound connection, which may happen all the time: it is declared no
        more often than after losses of the connection.
        """
        if any(map(self._desired.includes, queues)):
            with suppress(BrokerUnavailable):  # the connections report it
                self.refresh()

    def declare(self) -> None:
        """Make sure that everything is there. What differs is logged once and used as it is.

        Raises:
            BrokerUnavailable: the broker is away, or will not let us make what is missing.
        """
        with self._lock:
            found = self._declare()
        found.check()

    def _declare(self) -> Declared:
        desired = self._desired
        topology, began = desired.topology, time.monotonic()
        connecting = partial(connect, self._address, name="cronhare declaring")
        try:
            with TopologyClient(connecting, desired.arguments_of) as client:
                steps = declaration(topology, vhost=self._address.vhost, losses=client.losses)
                step = next(steps)
                while not isinstance(step, Declared):
                    step = steps.send(client.perform(step))
        except PIKA_ERRORS as error:
            why = why_unreachable(error)
            raise BrokerUnavailable(f"declaring at {self._address}: {why}") from error
        desired.note(topology, step, began=began)
        return step
