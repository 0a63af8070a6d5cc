"""Ringing through the broker: who claims by hand sends the message itself, once."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.redelivery import Graces
from cronhare.domain.messages.signing import Seal
from cronhare.domain.nodes import MOST_REPORTS, alive, served
from cronhare.domain.retries.leaps import has_passed
from cronhare.domain.texts.words import counted, listed
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.broker import BrokerPort, Published

from ..logs import say
from .execution_publisher import envelope, is_carried
from .missing_queues import MOST_NAMED

log = logging.getLogger(__name__)

#: So long schedulers leave a run to whoever claimed it: longer than a broker may take.
HEAD_START: Final = timedelta(seconds=3)

#: So many are sent; the others are a scheduler's.
MOST_AT_ONCE: Final = 100

#: After a broker that gave no answer, it is left alone for so long.
PAUSE: Final = timedelta(seconds=10)


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
    _seal: Seal
    _foreign_queues: Collection[str] = ()
    _silent_since: datetime | None = attrs.field(init=False, default=None)

    @property
    def head_start(self) -> timedelta:
        return HEAD_START

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:
        if not has_passed(PAUSE, self._silent_since, now):
            return
        self._silent_since = None
        sendable = [each for each in executions if self._may_send(each, now)][:MOST_AT_ONCE]
        try:
            faults = list(self._send(sendable, now)) if sendable else []
        except Exception as error:  # noqa: BLE001 - whatever it is, the ledger has them
            faults = [str(error) or type(error).__name__]
        if faults:
            latest = Graces().claimed.total_seconds()
            what = f"{counted(len(sendable), 'execution')} ({_ids(sendable)})"
            text = f"A scheduler sends {what} within {latest:g} s: {'; '.join(faults)}"
            say(log, logging.WARNING, "bell.unheard", text)

    def _may_send(self, execution: Execution, now: datetime) -> bool:
        is_ours = execution.queue not in self._foreign_queues
        return is_ours and execution.state is State.CLAIMED and is_carried(execution, now=now)

    def _send(self, executions: Sequence[Execution], now: datetime) -> Iterator[str]:
        """Send them, and say what could not be."""
        at_work = self._served(now)
        if unserved := {each.queue for each in executions} - at_work:
            yield f"no worker reports itself that serves queue {_named(unserved)}"
        sendable = [each for each in executions if each.queue in at_work]
        if not sendable:
            return
        broker = self._open_broker()
        try:
            outcomes = broker.publish([envelope(one, now=now, seal=self._seal) for one in sendable])
        finally:
            broker.close()
        by_queue = list(zip((one.queue for one in sendable), outcomes, strict=True))
        if missing := {queue for queue, outcome in by_queue if outcome is Published.RETURNED}:
            yield f"the broker has no queue {_named(missing)}"
        if refusing := {queue for queue, outcome in by_queue if outcome is Published.REFUSED}:
            yield f"the broker did not take it for queue {_named(refusing)}"
        if Published.UNKNOWN in outcomes:
            self._silent_since = now
            yield "the broker gave no answer in time"

    def _served(self, now: datetime) -> frozenset[str]:
        reports = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports
        return served(alive(reports, now), now)


def _named(queues: Collection[str]) -> str:
    return listed(sorted(queues), most=MOST_NAMED)


def _ids(executions: Sequence[Execution]) -> str:
    return listed([str(each.id) for each in executions], most=MOST_NAMED)
