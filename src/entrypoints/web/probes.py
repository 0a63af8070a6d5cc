"""The probes at the address of the API and the page, for whoever asks there anyway.

`/healthz` and `/readyz` need no token. `/metrics` names schedules, tasks and queues, and is for all
who may read.
"""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cronhare.adapters.prometheus.metrics import WAIT

from ..vitals import HEALTH, METRICS, READINESS
from .asking import Asker

#: Seconds that `/readyz` waits for a look at the servers; `/metrics` waits for `WAIT`.
PATIENCE: Final = 0.5


def routes(asker: Asker) -> Iterator[Route]:
    probes = _Probes(asker)
    yield Route(HEALTH, probes.health)
    yield Route(READINESS, probes.readiness)
    yield Route(METRICS, probes.metrics)


class _Probes:
    """The answers. They wait for no request that asks the ledger: those may fill their threads."""

    def __init__(self, asker: Asker) -> None:
        self._looks = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._counts = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._look: asyncio.Future[None] | None = None
        self._vitals = asker.container.vitals()
        asker.container.counting()  # it joins the registry, if it counts
        self._registry = asker.container.registry()

    async def health(self, _: Request) -> Response:
        return _answer(self._vitals.turns.faults())

    async def readiness(self, _: Request) -> Response:
        await self._looked(PATIENCE)
        return _answer(self._vitals.proofs.faults())

    async def metrics(self, request: Request) -> Response:
        await self._looked(WAIT)
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        loop = asyncio.get_running_loop()
        text = await loop.run_in_executor(self._counts, encode, self._registry)
        return Response(text, media_type=kind)

    async def _looked(self, patience: float) -> None:
        """Look at the servers: without an address of its own for probes, nobody else does.

        A look that takes longer goes on, and what was proven before counts.
        """
        if self._look is None or self._look.done():
            loop = asyncio.get_running_loop()
            self._look = loop.run_in_executor(self._looks, self._vitals.proofs.refresh)
        look = self._look
        await asyncio.wait({look}, timeout=patience)
        if look.done():
            look.result()


def _answer(faults: Sequence[str]) -> Response:
    return JSONResponse({"ok": not faults, "faults": list(faults)}, 503 if faults else 200)
