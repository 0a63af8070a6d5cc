"""The application: its parts side by side, and the guard before them all."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Final

import msgspec
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from cronhare.adapters.prometheus.metrics import WAIT

from ..container import Container
from ..vitals import HEALTH, METRICS, READINESS
from .access import Gate
from .api.executions import Counts, Executions
from .api.facts import Alerts, Facts, Work
from .api.failures import Failures, Quarantine, Replays
from .api.openapi import describe
from .api.scheduler_actions import SchedulerRuns, SchedulerSwitches
from .api.schedulers import Schedulers
from .api.tasks import Reports, Tasks
from .asking import Asker
from .guard import Guard
from .operations import Operation, operations_of
from .page.routes import refusals
from .page.routes import routes as page_routes
from .problems import answer_problems

#: Counts come before what has a number in their place, and names before what may follow an id.
_RESOURCES = (
    Schedulers, SchedulerSwitches, SchedulerRuns, Tasks, Reports, Counts, Executions, Failures,
    Quarantine, Replays, Work, Alerts, Facts,
)  # fmt: skip

#: Seconds that `/readyz` waits for a look at the servers; `/metrics` waits for `WAIT`.
PATIENCE: Final = 0.5


def operations_of_api(asker: Asker) -> list[Operation]:
    return [each for kind in _RESOURCES for each in operations_of(kind(asker))]


class _Probes:
    """The probes, for whoever asks here anyway: only `/metrics` needs a token.

    They wait for no request that asks the ledger: those may fill their threads.
    """

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


def make_application(container: Container, executor: ThreadPoolExecutor) -> ASGIApp:
    asker = Asker(container, executor)
    operations = operations_of_api(asker)
    described: list[bytes] = []

    async def describes(_: Request) -> Response:
        if not described:  # made once, when it is asked for
            of_all = describe(operations, title="cronhare", version=version("cronhare"))
            described.append(msgspec.json.encode(of_all))
        return Response(described[0], media_type="application/json")

    probes = _Probes(asker)
    routes: list[BaseRoute] = [
        Route("/openapi.json", describes),
        *operations,
        *page_routes(asker),
        Route(HEALTH, probes.health),
        Route(READINESS, probes.readiness),
        Route(METRICS, probes.metrics),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    app.state.asker = asker
    answer_problems(app)
    return Guard(app, Gate(asker), refuse=refusals())
