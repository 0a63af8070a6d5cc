"""Sending at once what was asked for: a bell, which no promise depends on."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
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

#: So often a bell that lasts says a fault.
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
            sends = f"A scheduler sends {what} within {latest:g} s, or once the broker takes it"
            text = f"{sends}: {'; '.join(faults)}"
            say(log, logging.WARNING, "bell.unheard", text)

    def close(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()

    def _send(self, executions: Sequence[Execution], now: datetime) -> Iterator[str]:
        reports = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports
        at_work = served(alive(reports, now), now)
        if unserved := {each.queue for each in executions} - at_work:
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


#: Seconds between looks for what is about to be committed, and for how long it is looked for.
LOOK_EVERY: Final = 0.005
LOOK_FOR: Final = 1.0

#: Seconds in which more is gathered once several came while it was rung for others: each ring takes
#: the interpreter from who enqueues, and a broker confirms many as soon as one.
GATHER: Final = 0.04

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
        #: Executions, or the id of one that is about to be committed; None ends the thread.
        self._asked = SimpleQueue[Execution | int | None]()
        self._thread = threading.Thread(target=self._run, name="cronhare-bell", daemon=True)
        self._beginning = threading.Lock()

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:  # noqa: ARG002
        self._ask(executions)

    def ring_once_there(self, ids: Collection[int]) -> None:
        self._ask(ids)

    def close(self) -> None:
        """Ring for what waits, within `LAST_RING`, and end."""
        self._ask([None])
        self._thread.join(LAST_RING)

    def _ask(self, asked: Iterable[Execution | int | None]) -> None:
        for each in asked:
            self._asked.put(each)
        with self._beginning:
            if self._thread.ident is None:
                self._thread.start()

    def _run(self) -> None:
        awaited, is_open = dict[int, float](), True  # when each is given up: it was rolled back
        rung = 0  # how many at last
        while is_open:
            asked = list(self._next(LOOK_EVERY if awaited else None, is_busy=rung > 1))
            is_open, moment = None not in asked, time.monotonic()
            ready = [each for each in asked if isinstance(each, Execution)]
            awaited |= {id_: moment + LOOK_FOR for id_ in asked if isinstance(id_, int)}
            try:
                found = self._find(awaited) if awaited else {}
                now = self._now()
            except Exception as error:  # noqa: BLE001 - the ledger is away: a scheduler finds them
                say(log, logging.DEBUG, "bell.unheard", f"Nothing is rung for: {error}")
                awaited.clear()
                continue
            awaited = {i: at for i, at in awaited.items() if i not in found and at > moment}
            if ready := [*ready, *found.values()]:
                self._bell.ring(ready, now=now)
            rung = len(ready)
        if isinstance(self._bell, SendingBell):
            self._bell.close()

    def _next(self, seconds: float | None, *, is_busy: bool) -> Iterator[Execution | int | None]:
        """Wait for what is asked, for so long; give all of it."""
        with suppress(Empty):
            yield self._asked.get(timeout=seconds)
            if is_busy:
                time.sleep(GATHER)
            while True:
                yield self._asked.get_nowait()


def _named(names: Iterable[str]) -> str:
    return listed(list(names), most=MOST_NAMED)
