"""Letting go what waited for an attempt that ended here, without waiting for a reconciler.

Nothing depends on it: what it misses, a reconciler lets go within seconds.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from cronhare.domain.execution import Execution
from cronhare.domain.messages.signing import Seal
from cronhare.ports.broker import AsyncBrokerPort, Published
from cronhare.ports.ledger import LedgerUnavailable

from ..let_go_log import log_let_go
from ..publishing.execution_publisher import envelope
from .ledger import WorkerLedger

log = logging.getLogger(__name__)

#: Seconds between the looks at a gate that another process is at; it has it for milliseconds.
PAUSES: Final = (0.01, 0.02, 0.04, 0.08, 0.16)


class GateOpener:
    """Opens gates, those that are asked for meanwhile together."""

    def __init__(
        self,
        ledger: WorkerLedger,
        broker: AsyncBrokerPort,
        seal: Seal,
        *,
        foreign_queues: Collection[str] = (),
    ) -> None:
        """What is let go for one of *foreign_queues* is published by a scheduler."""
        self._ledger = ledger
        self._broker = broker
        self._seal = seal
        self._foreign_queues = frozenset(foreign_queues)
        self._wanted: set[str] = set()
        self._opening: asyncio.Task[None] | None = None

    def open(self, gates: Iterable[str]) -> None:
        """Let go what may pass these gates, soon; nearly always there are none."""
        self._wanted.update(gates)
        if self._wanted and self._opening is None:
            self._opening = asyncio.create_task(self._open_all())

    async def settled(self) -> None:
        """Wait until all that was asked for is done."""
        while self._opening is not None:
            await asyncio.wait({self._opening})

    async def _open_all(self) -> None:
        pauses = iter(PAUSES)
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, set()
                busy = await self._open(wanted)
                if not busy:
                    pauses = iter(PAUSES)
                elif (pause := next(pauses, None)) is not None:
                    self._wanted |= busy
                    await asyncio.sleep(pause)
        except LedgerUnavailable:
            self._wanted.clear()
        except Exception:
            self._wanted.clear()
            text = "What was held back is let go by a scheduler: a fault of ours"
            log.exception("%s", text, extra={"action": "gate.fault"})
        finally:
            self._opening = None

    async def _open(self, wanted: Collection[str]) -> frozenset[str]:
        claims, clock = self._ledger.claims, self._ledger.clock
        answer = await self._ledger.in_thread(lambda: claims.let_go(wanted, now=clock.now()))
        log_let_go(answer)
        ours = [one for one in answer.executions if one.queue not in self._foreign_queues]
        if ours:
            await self._publish(ours)
        return answer.busy

    async def _publish(self, executions: Collection[Execution]) -> None:
        """Publish what was let go; if that is in doubt, a reconciler sends it again."""
        now = await self._ledger.in_thread(self._ledger.clock.now)
        published = await asyncio.gather(
            *(
                self._broker.publish(envelope(execution, now=now, seal=self._seal))
                for execution in executions
            )
        )
        pairs = zip(executions, published, strict=True)
        confirmed = [one for one, answer in pairs if answer is Published.CONFIRMED]
        if confirmed:
            with suppress(LedgerUnavailable):  # then it is sent once more, and fenced
                mark = partial(self._ledger.claims.mark_published, confirmed, now=now)
                await self._ledger.in_thread(mark)
