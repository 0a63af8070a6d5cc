"""Sending at once what was asked for: a bell, which no promise depends on."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.messages import Signer
from cronhare.domain.nodes import MOST_REPORTS, alive, has_passed, served
from cronhare.domain.texts.words import counted, listed
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.broker import BrokerPort, Published
from cronhare.ports.system import BellPort

from .logs import say
from .publish import MOST_NAMED, envelope, is_carried

log = logging.getLogger(__name__)

#: So long schedulers leave a run to whoever claimed it: longer than a broker may take.
HEAD_START: Final = timedelta(seconds=3)

#: So many are sent; the others are a scheduler's.
MOST_AT_ONCE: Final = 100

#: After a broker that gave no answer, it is left alone for so long.
PAUSE: Final = timedelta(seconds=10)

#: For so long a bell that lasts takes a queue for served, and says a fault only once.
SERVED_FOR: Final = timedelta(seconds=5)
SAID_FOR: Final = timedelta(minutes=1)


@attrs.define(kw_only=True, eq=False)
class SendingBell:
    """Sends the messages of what was claimed. Satisfies `BellPort`.

    It marks nothing as published. Whoever rings is a person's shell, which may know another broker
    than the schedulers, or another message key: then a scheduler sends the run after the head
    start, and not minutes later. If the first message was in the right place the second is a copy,
    which is fenced. Another program's worker cannot tell copies, so that what no worker of ours
    serves is left to the schedulers.
    """

    _open_broker: Callable[[], BrokerPort]
    _nodes: NodeStorePort
    _signer: Signer
    _foreign_queues: Collection[str] = ()
    #: Whether it keeps its connection for the next call, as a program that rings all day needs.
    _lasts: bool = False
    _broker: BrokerPort | None = attrs.field(init=False, default=None)
    _served: tuple[datetime, frozenset[str]] | None = attrs.field(init=False, default=None)
    _silent_since: datetime | None = attrs.field(init=False, default=None)
    _said_at: datetime | None = attrs.field(init=False, default=None)

    @property
    def head_start(self) -> timedelta:
        return HEAD_START

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:
        if not has_passed(PAUSE, self._silent_since, now):
            return
        self._silent_since = None
        sendable = [
            each
            for each in executions
            if each.queue not in self._foreign_queues
            and each.state is State.CLAIMED
            and is_carried(each, now=now)
        ]
        sendable = sendable if self._lasts else sendable[:MOST_AT_ONCE]
        try:
            faults = list(self._send(sendable, now)) if sendable else []
        except Exception as error:  # noqa: BLE001 - whatever it is, the ledger has them
            faults = [str(error) or type(error).__name__]
        if faults and (not self._lasts or has_passed(SAID_FOR, self._said_at, now)):
            self._said_at = now
            latest = Graces().claimed.total_seconds()
            what = f"{counted(len(sendable), 'execution')} ({_named(str(x.id) for x in sendable)})"
            text = f"A scheduler sends {what} within {latest:g} s: {'; '.join(faults)}"
            say(log, logging.WARNING, "bell.unheard", text)

    def close(self) -> None:
        """End the connection that it has kept."""
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()

    def _queues_at_work(self, wanted: set[str], now: datetime) -> Collection[str]:
        known = self._served
        if known is not None and not has_passed(SERVED_FOR, known[0], now) and known[1] >= wanted:
            return known[1]
        reports = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports
        at_work = served(alive(reports, now), now)
        self._served = (now, at_work) if self._lasts else None
        return at_work

    def _send(self, executions: Sequence[Execution], now: datetime) -> Iterator[str]:
        """Send them, and say what could not be."""
        wanted = {each.queue for each in executions}
        at_work = self._queues_at_work(wanted, now)
        if unserved := wanted.difference(at_work):
            yield f"no worker reports itself that serves queue {_named(sorted(unserved))}"
        sendable = [each for each in executions if each.queue in at_work]
        if not sendable:
            return
        self._broker = self._broker or self._open_broker()
        try:
            outcomes = self._broker.publish(
                [envelope(one, now=now, signer=self._signer) for one in sendable]
            )
        finally:
            if not self._lasts:
                self.close()
        by_queue = list(zip((one.queue for one in sendable), outcomes, strict=True))
        if missing := {queue for queue, outcome in by_queue if outcome is Published.RETURNED}:
            yield f"the broker has no queue {_named(sorted(missing))}"
        if refusing := {queue for queue, outcome in by_queue if outcome is Published.REFUSED}:
            yield f"the broker did not take it for queue {_named(sorted(refusing))}"
        if Published.UNKNOWN in outcomes:
            self._silent_since = now
            yield "the broker gave no answer in time"


#: Seconds before each look for what is about to be committed.
LOOKS: Final = (0.0, 0.005, 0.02, 0.1, 0.4, 1.0)

#: So long the end of a program waits for what is still to be rung.
LAST_RING: Final = 2.0


class BackgroundBell:
    """Rings another bell on a thread of its own, so that who enqueues waits for no broker.

    What comes meanwhile is rung for together. Satisfies `LaterBellPort`.
    """

    def __init__(
        self,
        bell: BellPort,
        *,
        now: Callable[[], datetime],
        find: Callable[[Collection[int]], Mapping[int, Execution]],
    ) -> None:
        """*find* reads executions that are committed."""
        self.head_start = bell.head_start
        self._bell, self._now, self._find = bell, now, find
        self._changed = threading.Condition()
        self._ready = list[Execution]()
        #: When to look for executions, by their ids, and how often that was in vain.
        self._awaited = dict[int, tuple[float, int]]()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:  # noqa: ARG002
        with self._changed:
            self._ready.extend(executions)
            self._wake()

    def ring_once_there(self, ids: Collection[int]) -> None:
        with self._changed:
            self._awaited.update(dict.fromkeys(ids, (time.monotonic(), 0)))
            self._wake()

    def close(self) -> None:
        """Ring for what waits, within `LAST_RING`, and end."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(LAST_RING)

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cronhare-bell", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            ready, sought = work
            try:
                found = self._find(sought) if sought else {}
                now = self._now()
            except Exception as error:  # noqa: BLE001 - the ledger is away: a scheduler finds them
                say(log, logging.DEBUG, "bell.unheard", f"Nothing is rung for: {error}")
                continue
            self._look_again({id_: times for id_, times in sought.items() if id_ not in found})
            if ready := [*ready, *found.values()]:
                self._bell.ring(ready, now=now)
        if isinstance(self._bell, SendingBell):
            self._bell.close()

    def _next(self) -> tuple[list[Execution], Mapping[int, int]] | None:
        """Wait for what is to be rung or looked for; None at the end."""
        with self._changed:
            while True:
                now = time.monotonic()
                due = {id_: times for id_, (at, times) in self._awaited.items() if at <= now}
                if self._ready or due:
                    for id_ in due:
                        del self._awaited[id_]
                    ready, self._ready = self._ready, []
                    return ready, due
                if self._is_closing:
                    return None
                soonest = min((at for at, _ in self._awaited.values()), default=None)
                self._changed.wait(None if soonest is None else soonest - now)

    def _look_again(self, missing: Mapping[int, int]) -> None:
        """Look for what is not committed a few times more: perhaps it was rolled back."""
        now = time.monotonic()
        with self._changed:
            for id_, times in missing.items():
                if times + 1 < len(LOOKS):
                    self._awaited.setdefault(id_, (now + LOOKS[times + 1], times + 1))


def _named(names: Iterable[str]) -> str:
    return listed(list(names), most=MOST_NAMED)
