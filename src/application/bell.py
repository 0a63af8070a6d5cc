"""Sending at once what a person asked for: a bell, which no promise depends on."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.domain.execution import Execution, Graces, State
from cronhare.domain.messages import Signer
from cronhare.domain.nodes import MOST_REPORTS, alive, has_passed, served
from cronhare.domain.texts.words import counted, listed
from cronhare.ports.attempts import NodeStorePort
from cronhare.ports.broker import BrokerPort, Published

from .logs import say
from .publish import MOST_NAMED, envelope, is_carried

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
    _signer: Signer
    _foreign_queues: Collection[str] = ()
    _silent_since: datetime | None = attrs.field(init=False, default=None)

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
        ][:MOST_AT_ONCE]
        try:
            faults = list(self._send(sendable, now)) if sendable else []
        except Exception as error:  # noqa: BLE001 - whatever it is, the ledger has them
            faults = [str(error) or type(error).__name__]
        if faults:
            latest = Graces().claimed.total_seconds()
            what = f"{counted(len(sendable), 'execution')} ({_named(str(x.id) for x in sendable)})"
            text = f"A scheduler sends {what} within {latest:g} s: {'; '.join(faults)}"
            say(log, logging.WARNING, "bell.unheard", text)

    def _send(self, executions: Sequence[Execution], now: datetime) -> Iterator[str]:
        """Send them, and say what could not be."""
        reports = self._nodes.nodes(now=now, limit=MOST_REPORTS).reports
        at_work = served(alive(reports, now), now)
        if unserved := {each.queue for each in executions} - at_work:
            yield f"no worker reports itself that serves queue {_named(sorted(unserved))}"
        sendable = [each for each in executions if each.queue in at_work]
        if not sendable:
            return
        broker = self._open_broker()
        try:
            outcomes = broker.publish(
                [envelope(one, now=now, signer=self._signer) for one in sendable]
            )
        finally:
            broker.close()
        by_queue = list(zip((one.queue for one in sendable), outcomes, strict=True))
        if missing := {queue for queue, outcome in by_queue if outcome is Published.RETURNED}:
            yield f"the broker has no queue {_named(sorted(missing))}"
        if refusing := {queue for queue, outcome in by_queue if outcome is Published.REFUSED}:
            yield f"the broker did not take it for queue {_named(sorted(refusing))}"
        if Published.UNKNOWN in outcomes:
            self._silent_since = now
            yield "the broker gave no answer in time"


def _named(names: Iterable[str]) -> str:
    return listed(list(names), most=MOST_NAMED)
