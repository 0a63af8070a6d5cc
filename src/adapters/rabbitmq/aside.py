"""Publishing beside the others: to whoever confirms nothing, while the broker serves the rest.

A quorum queue whose process hangs stops the channel on which something is published to it, and
with it all that is published there: none of it is confirmed (RabbitMQ 3.10). Nobody says whose
fault that was. So what was under way is tried apart, one road at a time; who answers is innocent.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import attrs

from cronhare.application.outages import Outage
from cronhare.ports.broker import Published

from .backoff import Backoff
from .messages import Parcel
from .sending import Sender
from .window import Batch

log = logging.getLogger(__name__)

#: Seconds that a call waits for a suspect's first confirm. It may come later, from a slow broker:
#: who hangs is only he whose connection falls silent.
FIRST_CONFIRM = 1.0

#: So many seconds may be waited for suspects in one call; others come first in the next.
MOST_WAITED = 3 * FIRST_CONFIRM


@attrs.frozen
class _Asked:
    """The first message for a suspect, and whose connection carries it."""

    sender: Sender
    first: Batch


@attrs.define
class _Suspicion:
    outage: Outage
    backoff: Backoff = attrs.field(factory=Backoff)
    try_at: float = 0.0
    asked: _Asked | None = None


class Aside:
    """Publishes to suspects on a connection of its own, which serves nobody else.

    It opens with the first suspect. Who lets a call wait in vain keeps it until he is judged, and
    the next one gets another. Safe to share between threads; one publishes at a time.
    """

    def __init__(
        self,
        connect: Callable[[], Sender],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*connect* makes such a connection's sender."""
        self._connect = connect
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sender: Sender | None = None
        self._suspicions: dict[str, _Suspicion] = {}

    def suspect(self, parcels: Iterable[Parcel]) -> None:
        """Publish apart whatever takes the roads of these, which were under way and unconfirmed."""
        for road in {road_of(parcel) for parcel in parcels}:
            text = f"Publishing to {road} again"
            self._suspicions.setdefault(road, _Suspicion(Outage(log, text, back="queue.back")))

    def takes(self, parcels: Sequence[Parcel]) -> Sequence[bool]:
        """Tell of each whether its road is a suspect's; of none, mostly, then of all at once."""
        if not self._suspicions:
            return ()
        return [road_of(parcel) in self._suspicions for parcel in parcels]

    def publish(self, parcels: Sequence[Parcel], *, timeout: float) -> Sequence[Published]:
        """Publish what takes suspected roads; *timeout* is in seconds, for each road that answers.

        Who hangs is `REFUSED`, as by a full queue: it is no sign that the broker is away.
        """
        roads = dict[str, list[int]]()
        for index, parcel in enumerate(parcels):
            roads.setdefault(road_of(parcel), []).append(index)
        outcomes = [Published.REFUSED] * len(parcels)
        with self._lock:
            give_up_at = self._monotonic() + MOST_WAITED
            for road, indices in sorted(roads.items(), key=self._tried_at):
                if self._monotonic() >= give_up_at or not self._is_to_try(road):
                    continue
                answers = self._try(road, [parcels[index] for index in indices], timeout=timeout)
                for index, answer in zip(indices, answers, strict=True):
                    outcomes[index] = answer
        return outcomes

    def close(self) -> None:
        """Let go of all connections. What was under way is unknown."""
        asked = [each.asked for each in list(self._suspicions.values())]
        for sender in {self._sender, *(each.sender for each in asked if each is not None)}:
            if sender is not None:
                sender.close()

    def _tried_at(self, each: tuple[str, object]) -> float:
        """Order roads: whoever hung comes last, or nobody behind it would ever be tried."""
        suspicion = self._suspicions.get(each[0])
        return 0.0 if suspicion is None else suspicion.try_at

    def _is_to_try(self, road: str) -> bool:
        suspicion = self._suspicions.get(road)
        return suspicion is None or self._monotonic() >= suspicion.try_at

    def _try(self, road: str, parcels: Sequence[Parcel], *, timeout: float) -> Sequence[Published]:
        suspicion = self._suspicions.get(road)
        if suspicion is None:  # another call has just acquitted it
            return self._publish(parcels, timeout=timeout)
        is_new = suspicion.asked is None
        asked = suspicion.asked or self._ask(parcels[0])
        if not asked.first.is_done_within(FIRST_CONFIRM if is_new else 0.0):
            suspicion.asked = asked
            self._sender = None if self._sender is asked.sender else self._sender
            return [Published.REFUSED] * len(parcels)
        suspicion.asked = None
        [answer] = asked.first.wait(0.0)
        if answer is Published.UNKNOWN:
            return self._does_not_answer(road, asked, suspicion, many=len(parcels))
        self._keep(asked.sender)
        del self._suspicions[road]
        suspicion.outage.is_over()
        if is_new:
            return [answer, *self._publish(parcels[1:], timeout=timeout)]
        return self._publish(parcels, timeout=timeout)

    def _ask(self, parcel: Parcel) -> _Asked:
        asked = _Asked(self._sender or self._connect(), Batch([parcel]))
        self._sender = asked.sender
        asked.sender.submit(asked.first)
        return asked

    def _publish(self, parcels: Sequence[Parcel], *, timeout: float) -> Sequence[Published]:
        sender = self._sender = self._sender or self._connect()
        batch = Batch(parcels)
        sender.submit(batch)
        return batch.wait(timeout)

    def _keep(self, sender: Sender) -> None:
        """Have the next suspect served by this connection, if there is none for him."""
        if self._sender is None:
            self._sender = sender
        elif self._sender is not sender:
            _close_in_silence(sender)

    def _does_not_answer(
        self, road: str, asked: _Asked, suspicion: _Suspicion, *, many: int
    ) -> Sequence[Published]:
        """Leave out who hangs. Where nothing was sent there was no connection: nobody's fault."""
        if not asked.first.has_begun:
            self._keep(asked.sender)
            return [Published.UNKNOWN] * many
        self._sender = None if self._sender is asked.sender else self._sender
        _close_in_silence(asked.sender)
        suspicion.try_at = self._monotonic() + suspicion.backoff.next()
        text = f"{road} confirms nothing, and is published to beside the others"
        suspicion.outage.lasts(
            logging.WARNING, "queue.unavailable", text, "its connection is silent"
        )
        return [Published.REFUSED] * many


def _close_in_silence(sender: Sender) -> None:
    """Close a connection of which no good-bye can be hoped for."""
    threading.Thread(target=sender.close, daemon=True).start()


def road_of(parcel: Parcel) -> str:
    """Name what a message enters first: a queue, or the exchange of a lane."""
    return parcel.exchange or parcel.key
