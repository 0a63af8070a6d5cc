"""A process's report of its state, on SIGUSR1: its servers, what runs, and what waits."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from cronhare.adapters.memory.broker.broker import MemoryBroker
from cronhare.application.logs import say
from cronhare.domain.diagnosis.broker import BrokerFacts
from cronhare.domain.diagnosis.queues import Kind
from cronhare.domain.diagnosis.servers import InMemory, Unreachable
from cronhare.domain.topology import topology
from cronhare.ports.ledger import LedgerUnavailable

from ..container import Container

log = logging.getLogger(__name__)

#: Seconds that a server has for its answer; what runs is reported before.
TIMEOUT: Final = 10.0

#: A sentence, and the context in its brackets.
StateLine = tuple[str, dict[str, Any]]
StateLines = Callable[[], Iterable[StateLine]]


class StateReport:
    """Writes the state of this process to the log."""

    def __init__(self, container: Container) -> None:
        """The time since now is reported as well."""
        self._container = container
        self._began = time.monotonic()
        self._parts: list[StateLines] = []

    def add(self, part: StateLines) -> None:
        """Let a part of the process report as well; it is called in the event loop."""
        self._parts.append(part)

    async def write(self) -> None:
        """Write first what is known here, then what the servers answer."""
        up = time.monotonic() - self._began
        _say(f"Node {self._container.node()}, running for {up:.0f} s")
        for part in self._parts:
            for text, context in part():
                _say(text, **context)
        looks = {"ledger": self._look_at_ledger, "broker": self._look_at_broker}
        await asyncio.gather(*(_look(server, look) for server, look in looks.items()))

    def _look_at_ledger(self) -> str:
        began = time.monotonic()
        try:
            self._container.ledger_time().now()
        except LedgerUnavailable as error:
            return f"unreachable: {error}"
        return f"answers within {(time.monotonic() - began) * 1000:.0f} ms"

    def _look_at_broker(self) -> str:
        queues: tuple[str, ...] = self._container.queues()
        retry_delay = self._container.settings().retry_delay
        wanted = topology(retry_delay=retry_delay, queues=queues)
        found = self._container.broker_inspection().inspect(wanted)
        if isinstance(found, Unreachable):
            return f"unreachable: {found.said}"
        if isinstance(found, InMemory):
            if not queues:
                return "in memory, inside of `cronhare up`"
            broker: MemoryBroker = self._container.memory_broker()
            waiting = "; ".join(f"{each}: {broker.depth(each)} waiting" for each in queues)
            return f"in this process; {waiting}"
        alarm = f", takes no messages: {found.alarm}" if found.alarm else ""
        return f"{found.product} {found.version} answers{alarm}; {_waiting(found, queues)}"


def _waiting(facts: BrokerFacts, queues: Sequence[str]) -> str:
    return "; ".join(
        f"{thing.name}: {thing.messages} waiting, {thing.consumers} consumers"
        for thing in facts.things
        if thing.kind is Kind.QUEUE and thing.name in queues
    )


async def _look(server: str, look: Callable[[], str]) -> None:
    try:
        async with asyncio.timeout(TIMEOUT):
            answer = await asyncio.to_thread(look)
    except TimeoutError:
        answer = f"no answer within {TIMEOUT:.0f} s"
    _say(f"The {server}: {answer}")


def _say(text: str, **context: Any) -> None:  # noqa: ANN401 - whatever is shown in brackets
    say(log, logging.INFO, "state", text, **context)
