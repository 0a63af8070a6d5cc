"""Publishing beside the others: to whoever confirms nothing, while the broker serves the rest.

A quorum queue whose process hangs stops the channel on which something is published to it, and
with it all that is published there: none of it is confirmed (RabbitMQ 3.10). Nobody says whose
fault that was. So what was under way is tried apart, one road after the other; who answers is
innocent.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import attrs

from cronhare.application.outages import Outage
from cronhare.ports.broker import Published

from ..connection.backoff import Backoff
from ..wire.messages import AmqpMessage
from .sending import CLOSE_TIMEOUT, Sender
from .window import Batch

log = logging.getLogger(__name__)

#: Seconds that a call waits for a suspect's first confirm. It may come later, from a slow broker:
#: who hangs is only he whose connection falls silent.
FIRST_CONFIRM = 1.0

#: So many seconds may be waited for suspects in one call; others come first in the next.
MOST_WAITED = 3 * FIRST_CONFIRM

#: So many connections at most carry a first message that nobody has confirmed yet, and half as many
#: one of somebody who hung before: whoever is new may be innocent, and waits for none of those.
MOST_ASKED = 8


#: A suspect for whom so many connections in a row could not be opened goes with the others again.
MOST_UNOPENED = 3


@attrs.frozen
class _Asked:
    """The first message for a suspect, and whose connection carries it."""

    sender: Sender
    first: Batch
    is_fresh: bool


@attrs.define
class _Suspicion:
    outage: Outage
    backoff: Backoff = attrs.field(factory=Backoff)
    try_at: float = 0.0
    asked: _Asked | None = None
    is_silent: bool = False
    unopened: int = 0


class Aside:
    """Publishes to suspects on connections of their own, which serve nobody else.

    One opens with the first suspect. Who lets a call wait in vain keeps it until he is judged, and
    the next one gets another. Safe to share between threads; one publishes at a time.
    """

    def __init__(
        self,
        connect: Callable[[], Sender],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*connect* makes such a connection's sender, which declares nothing.

        What one hanging queue takes long to declare would be waited for by all of them, and by the
        connection that serves the others.
        """
        self._connect = connect
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sender: Sender | None = None
        self._is_closed = False
        self._suspicions: dict[str, _Suspicion] = {}

    def suspect(self, parcels: Iterable[AmqpMessage]) -> None:
        """Publish apart whatever takes the roads of these, which a silence has left unconfirmed."""
        for road in dict.fromkeys(map(road_of, parcels)):
            known = self._suspicions.get(road)
            if known is None:
                text = f"Publishing to {road} again"
                self._suspicions[road] = _Suspicion(Outage(log, text, back="queue.back"))
                continue
            known.is_silent = True
            if known.asked is not None:
                known.asked.sender.retire()

    def takes(self, parcels: Sequence[AmqpMessage]) -> Sequence[bool]:
        """Tell of each whether its road is a suspect's; of none, mostly, then of all at once."""
        if not self._suspicions:
            return ()
        if self._lock.acquire(blocking=False):  # whoever has it will hear them
            try:
                self._hear()
            finally:
                self._lock.release()
        return [road_of(parcel) in self._suspicions for parcel in parcels]

    def publish(self, parcels: Sequence[AmqpMessage], *, timeout: float) -> Sequence[Published]:
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
                if self._monotonic() >= give_up_at:
                    break
                answers = self._try(road, [parcels[index] for index in indices], timeout=timeout)
                for index, answer in zip(indices, answers, strict=True):
                    outcomes[index] = answer
        return outcomes

    def close(self) -> None:
        """Let go of all connections, at the same time. What was under way is unknown."""
        self._is_closed = True
        asked = [each.asked for each in list(self._suspicions.values())]
        ending = [_close_in_silence(each.sender) for each in asked if each is not None]
        if self._sender is not None:
            self._sender.close()
        for thread in ending:
            thread.join(CLOSE_TIMEOUT)

    def _tried_at(self, each: tuple[str, object]) -> float:
        """Order roads: whoever hung comes last, or nobody behind it would ever be tried."""
        suspicion = self._suspicions.get(each[0])
        return 0.0 if suspicion is None else suspicion.try_at

    def _try(
        self, road: str, parcels: Sequence[AmqpMessage], *, timeout: float
    ) -> Sequence[Published]:
        suspicion = self._suspicions.get(road)
        if suspicion is None:  # it has answered meanwhile
            return self._publish(parcels, timeout=timeout)
        if not self._may_be_asked(suspicion):
            return [Published.REFUSED] * len(parcels)
        asked = self._ask(suspicion, parcels[0])
        if not asked.first.is_done_within(FIRST_CONFIRM):
            self._sender = None  # it stays with the one that it waits for
            return [Published.REFUSED] * len(parcels)
        answer = self._judge(road, suspicion, asked)
        if answer is Published.UNKNOWN or road in self._suspicions:
            return [answer] * len(parcels)
        return [answer, *self._publish(parcels[1:], timeout=timeout)]

    def _may_be_asked(self, suspicion: _Suspicion) -> bool:
        asked = [each for each in list(self._suspicions.values()) if each.asked is not None]
        hung = [each for each in asked if each.try_at]
        has_room = len(asked) < MOST_ASKED
        if suspicion.try_at:
            has_room = has_room and len(hung) < MOST_ASKED // 2
        return has_room and suspicion.asked is None and self._monotonic() >= suspicion.try_at

    def _ask(self, suspicion: _Suspicion, parcel: AmqpMessage) -> _Asked:
        is_fresh = self._sender is None
        sender = self._sender or self._open()
        suspicion.asked = asked = _Asked(sender, Batch([parcel]), is_fresh)
        suspicion.is_silent = False
        asked.sender.submit(asked.first)
        return asked

    def _hear(self) -> None:
        """Judge all that have answered since, or fallen silent, also if nothing is for them now."""
        for road, suspicion in list(self._suspicions.items()):
            if suspicion.asked is not None and suspicion.asked.first.is_done_within(0.0):
                self._judge(road, suspicion, suspicion.asked)

    def _judge(self, road: str, suspicion: _Suspicion, asked: _Asked) -> Published:
        """Acquit who has answered; leave out who has not, for ever longer."""
        suspicion.asked = None
        [answer] = asked.first.wait(0.0)
        if answer is not Published.UNKNOWN:
            self._keep(asked.sender)
            del self._suspicions[road]
            suspicion.outage.is_over()
            return answer
        if not asked.first.has_begun:
            return self._has_no_connection(road, suspicion, asked)
        self._let_go(asked.sender)
        if not suspicion.is_silent and asked.sender.was_blocked:
            return answer  # an alarm is nobody's fault
        if not suspicion.is_silent and asked.sender.was_refused:
            del self._suspicions[road]  # what it needs is missing: the others' connection tells
            return answer
        suspicion.try_at = self._monotonic() + suspicion.backoff.next()
        text = f"{road} confirms nothing, and is published to beside the others"
        why = "silent" if suspicion.is_silent else "lost"
        suspicion.outage.lasts(
            logging.WARNING, "queue.unavailable", text, f"its connection is {why}"
        )
        return Published.REFUSED

    def _has_no_connection(self, road: str, suspicion: _Suspicion, asked: _Asked) -> Published:
        """Try another. The broker may allow none: who cannot be judged goes with the others."""
        self._let_go(asked.sender)
        suspicion.unopened += asked.is_fresh
        if suspicion.unopened >= MOST_UNOPENED:
            del self._suspicions[road]
        return Published.UNKNOWN

    def _publish(self, parcels: Sequence[AmqpMessage], *, timeout: float) -> Sequence[Published]:
        if not parcels:  # the first one was all
            return []
        sender = self._sender or self._open()
        batch = Batch(parcels)
        sender.submit(batch)
        outcomes = batch.wait(timeout)
        if batch.has_begun and Published.UNKNOWN in outcomes:
            self._let_go(sender)  # the next suspect is not to be blamed for it
        return outcomes

    def _open(self) -> Sender:
        self._sender = sender = self._connect()
        if self._is_closed:  # now, or `close` has seen it
            sender.close()
        return sender

    def _keep(self, sender: Sender) -> None:
        """Have the next suspect served by this connection, if there is none for him."""
        if sender.is_ending or self._sender not in (None, sender):
            self._let_go(sender)
        else:
            self._sender = sender

    def _let_go(self, sender: Sender) -> None:
        if self._sender is sender:
            self._sender = None
        _close_in_silence(sender)


def _close_in_silence(sender: Sender) -> threading.Thread:
    """Close a connection of which no good-bye can be hoped for."""
    thread = threading.Thread(target=sender.close, daemon=True)
    thread.start()
    return thread


def road_of(parcel: AmqpMessage) -> str:
    """Name what a message enters first: a queue, or the exchange of a lane."""
    return parcel.exchange or parcel.key
