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

#: Seconds that a suspect has for its first confirm: more than a busy broker needs.
FIRST_CONFIRM = 1.0

#: So many seconds may be waited for suspects in one call; others come first in the next.
MOST_WAITED = 3 * FIRST_CONFIRM


@attrs.define
class _Suspicion:
    outage: Outage
    backoff: Backoff = attrs.field(factory=Backoff)
    try_at: float = 0.0


class Aside:
    """Publishes to suspects on a connection of its own, which serves nobody else.

    It opens with the first suspect. Safe to share between threads; one publishes at a time.
    """

    def __init__(
        self,
        connect: Callable[[], Sender],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*connect* makes that connection's sender, to whom a silence of a second is too long."""
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
        """Let go of the connection. What was under way is unknown."""
        if self._sender is not None:
            self._sender.close()

    def _tried_at(self, each: tuple[str, object]) -> float:
        """Order roads: whoever hung comes last, or nobody behind it would ever be tried."""
        suspicion = self._suspicions.get(each[0])
        return 0.0 if suspicion is None else suspicion.try_at

    def _is_to_try(self, road: str) -> bool:
        suspicion = self._suspicions.get(road)
        return suspicion is None or self._monotonic() >= suspicion.try_at

    def _try(self, road: str, parcels: Sequence[Parcel], *, timeout: float) -> Sequence[Published]:
        sender = self._sender = self._sender or self._connect()
        first = Batch(parcels[:1])
        sender.submit(first)
        [answer] = first.wait(FIRST_CONFIRM)
        if answer is Published.UNKNOWN and first.has_begun:
            self._hangs(road)
            return [Published.REFUSED] * len(parcels)
        if answer is Published.UNKNOWN:
            return [answer] * len(parcels)
        rest = Batch(parcels[1:])
        sender.submit(rest)
        self._is_innocent(road)
        return [answer, *rest.wait(timeout)]

    def _hangs(self, road: str) -> None:
        """Leave out who hangs, and its connection, of which no good-bye can be hoped for."""
        if self._sender is not None:
            threading.Thread(target=self._sender.close, daemon=True).start()
            self._sender = None
        suspicion = self._suspicions.get(road)
        if suspicion is None:
            return
        suspicion.try_at = self._monotonic() + suspicion.backoff.next()
        text = f"{road} confirms nothing, and is published to beside the others"
        error = f"no confirm within {FIRST_CONFIRM:.1f} s"
        suspicion.outage.lasts(logging.WARNING, "queue.unavailable", text, error)

    def _is_innocent(self, road: str) -> None:
        suspicion = self._suspicions.pop(road, None)
        if suspicion is not None:
            suspicion.outage.is_over()


def road_of(parcel: Parcel) -> str:
    """Name what a message enters first: a queue, or the exchange of a lane."""
    return parcel.exchange or parcel.key
