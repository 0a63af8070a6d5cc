"""Publishing to queues that confirm nothing, on connections apart from all others.

A quorum queue whose process hangs stops the channel on which something is published to it, and
with it all that is published there: none of it is confirmed (RabbitMQ 3.10). The broker does not
say which queue it is. So each that had unconfirmed messages is a suspect, and is probed with one
message on a connection of its own; one that confirms it is published to with the others again.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import attrs

from cronhare.application.outages import Outage
from cronhare.domain.shutdown_times import DISCONNECTING
from cronhare.ports.broker import Published

from ..connection.backoff import Backoff
from ..wire.messages import AmqpMessage
from .confirms import Batch
from .thread import PublisherThread

log = logging.getLogger(__name__)

#: Seconds that a call waits for a probe's confirm. It may come later, from a slow broker: a suspect
#: hangs only if its connection falls silent.
PROBE_TIMEOUT = 1.0

#: Seconds that one call may wait for suspects; the next call tries others first.
MOST_WAITED = 3 * PROBE_TIMEOUT

#: Probes that may be unconfirmed at a time, each on its connection. Suspects that hung before have
#: half of them: a new one may be innocent, and does not wait for those.
MOST_PROBES = 8

#: A suspect for which so many new connections could not be opened is published to with the others.
MOST_UNOPENED = 3


@attrs.frozen
class _Probe:
    """The first message for a suspect, and the publisher whose connection carries it."""

    publisher: PublisherThread
    first: Batch
    is_new: bool  # the connection was opened for it


@attrs.define
class _Suspect:
    outage: Outage
    backoff: Backoff = attrs.field(factory=Backoff)
    retry_at: float = 0.0  # 0: it has not hung yet
    probe: _Probe | None = None
    is_silent: bool = False
    unopened: int = 0


class SuspectPublisher:
    """Publishes to suspects on connections of their own. Safe to share between threads.

    The first suspect opens one. It keeps a suspect whose probe a call waited for in vain, until
    that probe has ended; the next suspect gets another connection. One call publishes at a time.
    """

    def __init__(
        self,
        connect: Callable[[], PublisherThread],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*connect* makes a publisher that declares nothing.

        To declare a hanging queue takes long, and all declarations wait for each other, that of
        the connection for the other queues included.
        """
        self._connect = connect
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._publisher: PublisherThread | None = None
        self._is_closed = False
        self._suspects: dict[str, _Suspect] = {}

    def suspect(self, messages: Iterable[AmqpMessage]) -> None:
        """Suspect the targets of these messages, which a silent connection left unconfirmed."""
        for target in dict.fromkeys(map(target_of, messages)):
            known = self._suspects.get(target)
            if known is None:
                text = f"Publishing to {target} again"
                self._suspects[target] = _Suspect(Outage(log, text, back="queue.back"))
                continue
            known.is_silent = True
            if known.probe is not None:
                known.probe.publisher.retire()

    def are_suspect(self, messages: Sequence[AmqpMessage]) -> Sequence[bool]:
        """Say of each message whether its target is a suspect; nothing where there is none."""
        if not self._suspects:
            return ()
        if self._lock.acquire(blocking=False):  # else the holder checks them
            try:
                self._check_probes()
            finally:
                self._lock.release()
        return [target_of(message) in self._suspects for message in messages]

    def publish(self, messages: Sequence[AmqpMessage], *, timeout: float) -> Sequence[Published]:
        """Publish messages for suspects; *timeout* is in seconds, for each target that answers.

        What is for one that hangs is `REFUSED`, as by a full queue: the broker is not away.
        """
        targets = dict[str, list[int]]()
        for index, message in enumerate(messages):
            targets.setdefault(target_of(message), []).append(index)
        outcomes = [Published.REFUSED] * len(messages)
        with self._lock:
            give_up_at = self._monotonic() + MOST_WAITED
            for target, indices in sorted(targets.items(), key=self._retry_at):
                if self._monotonic() >= give_up_at:
                    break
                answers = self._try(target, [messages[each] for each in indices], timeout=timeout)
                for index, answer in zip(indices, answers, strict=True):
                    outcomes[index] = answer
        return outcomes

    def close(self) -> None:
        """Close all connections, at the same time. What was under way is unknown."""
        self._is_closed = True
        probes = [each.probe for each in list(self._suspects.values())]
        closing = [each.publisher.close_in_background() for each in probes if each is not None]
        if self._publisher is not None:
            self._publisher.close()
        for thread in closing:
            thread.join(DISCONNECTING)

    def _retry_at(self, each: tuple[str, object]) -> float:
        """Order targets: those that hung come last, or the time might never reach the others."""
        suspect = self._suspects.get(each[0])
        return 0.0 if suspect is None else suspect.retry_at

    def _try(
        self, target: str, messages: Sequence[AmqpMessage], *, timeout: float
    ) -> Sequence[Published]:
        suspect = self._suspects.get(target)
        if suspect is None:  # it has answered meanwhile
            return self._publish(messages, timeout=timeout)
        if not self._may_probe(suspect):
            return [Published.REFUSED] * len(messages)
        probe = self._start_probe(suspect, messages[0])
        if not probe.first.is_done_within(PROBE_TIMEOUT):
            self._publisher = None  # it is the probe's until that has ended
            return [Published.REFUSED] * len(messages)
        answer = self._end_probe(target, suspect, probe)
        if answer is Published.UNKNOWN or target in self._suspects:
            return [answer] * len(messages)
        return [answer, *self._publish(messages[1:], timeout=timeout)]

    def _may_probe(self, suspect: _Suspect) -> bool:
        probed = [each for each in list(self._suspects.values()) if each.probe is not None]
        has_room = len(probed) < MOST_PROBES
        if suspect.retry_at:
            hung = [each for each in probed if each.retry_at]
            has_room = has_room and len(hung) < MOST_PROBES // 2
        return has_room and suspect.probe is None and self._monotonic() >= suspect.retry_at

    def _start_probe(self, suspect: _Suspect, message: AmqpMessage) -> _Probe:
        is_new = self._publisher is None
        publisher = self._publisher or self._open()
        suspect.probe = probe = _Probe(publisher, Batch([message]), is_new)
        suspect.is_silent = False
        publisher.submit(probe.first)
        return probe

    def _check_probes(self) -> None:
        """End all probes that were answered or whose connections ended, whoever they are for."""
        for target, suspect in list(self._suspects.items()):
            if suspect.probe is not None and suspect.probe.first.is_done_within(0.0):
                self._end_probe(target, suspect, suspect.probe)

    def _end_probe(self, target: str, suspect: _Suspect, probe: _Probe) -> Published:
        """Suspect a target no more that has answered; leave out the others, with growing waits."""
        suspect.probe = None
        [answer] = probe.first.wait(0.0)
        if answer is not Published.UNKNOWN:
            self._keep(probe.publisher)
            del self._suspects[target]
            suspect.outage.is_over()
            return answer
        self._drop(probe.publisher)
        if not probe.first.has_begun:  # no connection: the broker may allow no further one
            suspect.unopened += probe.is_new
            if suspect.unopened >= MOST_UNOPENED:
                del self._suspects[target]
            return answer
        if not suspect.is_silent and probe.publisher.was_blocked:
            return answer  # an alarm is no fault of the suspect
        if not suspect.is_silent and probe.publisher.was_refused:
            del self._suspects[target]  # its exchange is missing: the others' connection declares
            return answer
        suspect.retry_at = self._monotonic() + suspect.backoff.next()
        text = f"{target} confirms nothing, and is published to beside the others"
        why = f"its connection is {'silent' if suspect.is_silent else 'lost'}"
        suspect.outage.lasts(logging.WARNING, "queue.unavailable", text, why)
        return Published.REFUSED

    def _publish(self, messages: Sequence[AmqpMessage], *, timeout: float) -> Sequence[Published]:
        if not messages:  # the probe's was the only one
            return []
        publisher = self._publisher or self._open()
        batch = Batch(messages)
        publisher.submit(batch)
        outcomes = batch.wait(timeout)
        if batch.has_begun and Published.UNKNOWN in outcomes:
            self._drop(publisher)  # the next suspect is not to be blamed for it
        return outcomes

    def _open(self) -> PublisherThread:
        self._publisher = publisher = self._connect()
        if self._is_closed:  # here, or `close` has seen it
            publisher.close()
        return publisher

    def _keep(self, publisher: PublisherThread) -> None:
        """Use this connection for the next suspect, if there is none for it."""
        if publisher.is_ending or self._publisher not in (None, publisher):
            self._drop(publisher)
        else:
            self._publisher = publisher

    def _drop(self, publisher: PublisherThread) -> None:
        if self._publisher is publisher:
            self._publisher = None
        publisher.close_in_background()


def target_of(message: AmqpMessage) -> str:
    """Name what a message enters first: a queue, or the exchange of a lane."""
    return message.exchange or message.key
