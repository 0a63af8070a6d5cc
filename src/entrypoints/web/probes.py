"""The probes at the address of the API and the page, for whoever asks there anyway.

`/healthz` and `/readyz` need no token. `/metrics` names schedules, tasks and queues, and is for all
who may read.
"""

from collections.abc import Iterator, Sequence

from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..probes.application import HEALTH, METRICS, READINESS
from .asking import Asker


def routes(asker: Asker) -> Iterator[Route]:
    """Make the routes."""
    probes = _Probes(asker)
    yield Route(HEALTH, probes.health)
    yield Route(READINESS, probes.readiness)
    yield Route(METRICS, probes.metrics)


class _Probes:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._vitals = asker.container.vitals()
        asker.container.counting()  # it joins the registry, if it counts
        self._registry = asker.container.registry()

    async def health(self, _: Request) -> Response:
        """Tell whether the loops turn."""
        return _answer(self._vitals.turns.faults())

    async def readiness(self, _: Request) -> Response:
        """Tell whether the process can do its work; without an address of its own nobody looks."""
        await self._asker.ask(self._vitals.proofs.refresh)
        return _answer(self._vitals.proofs.faults())

    async def metrics(self, request: Request) -> Response:
        """Give the metrics, in the form that is asked for."""
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        text = await self._asker.ask(lambda: encode(self._registry))
        return Response(text, media_type=kind)


def _answer(faults: Sequence[str]) -> Response:
    return JSONResponse({"ok": not faults, "faults": list(faults)}, 503 if faults else 200)
