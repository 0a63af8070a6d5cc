"""What tests ask of ports, and the program does not."""

from collections.abc import Collection
from datetime import timedelta
from typing import Protocol

from cronhare.domain.messages import Nacks
from cronhare.ports.broker import BrokerPort, Delivery
from cronhare.ports.schedules import ScheduleStorePort

#: The headers of a message that was never nacked.
NO_NACKS = Nacks(by_queue={}, trip=timedelta(seconds=1))


class ReadableBroker(BrokerPort, Protocol):
    """A broker whose messages can be taken one by one."""

    def receive(self, queue: str) -> Delivery | None:
        """Take the next message of a queue, if there is one.

        Raises:
            BrokerUnavailable: nothing was taken: what is not acked comes again.
        """
        ...

    def ack(self, delivery: Delivery) -> None:
        """Settle a received message. Its failure is harmless: the message comes again."""
        ...

    def nack(self, delivery: Delivery, *, requeue: bool = False) -> None:
        """Give a message back (*requeue*), or hand it to its queue's dead-letter exchange."""
        ...

    def close(self) -> None:
        """Let go of the connection. What was received and not settled comes again."""
        ...


def ids_of(store: ScheduleStorePort, names: Collection[str]) -> dict[str, int]:
    """Find ids in the order of *names*; unknown names are left out."""
    found = {stored.name: stored.id for stored in store.schedules(names)}
    return {name: found[name] for name in names if name in found}
