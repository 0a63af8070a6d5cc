"""A scheduler's life: dispatch at each due instant, reconcile every few seconds."""

import asyncio
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

from cronhare.application.dispatch import Dispatcher
from cronhare.application.lanes import try_lanes
from cronhare.application.reconcile import Reconciler
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.ledger import LedgerUnavailable

from .container import Container
from .loops import Loop
from .state import Line, State
from .stopping import Stopping
from .within import within

#: How often a replica looks for what is overdue or lost: with each refresh, as that is by default.
#: The graces and leases that it looks for are longer, and to look twice as often would make an idle
#: minute cost nearly twice as much.
RECONCILE_EVERY = timedelta(seconds=5)

#: It looks so much earlier if it is awake anyhow.
TOGETHER = timedelta(milliseconds=100)


#: Seconds that the round under way may take once we are to stop, and the broker's farewell.
ROUND, FAREWELL = 10.0, 5.0


class Scheduling:
    """What a scheduler process does between two rests."""

    def __init__(
        self, *, claims: ClaimStorePort, dispatcher: Dispatcher, reconciler: Reconciler
    ) -> None:
        """One clock decides what is due: the ledger's."""
        self._claims = claims
        self._dispatcher = dispatcher
        self._reconciler = reconciler
        self._reconcile_at: datetime | None = None

    def round(self) -> float:
        """Do what is due, and say how many seconds to rest."""
        try:
            return self._round()
        except LedgerUnavailable:
            self._reconciler.spare()
            raise

    def _round(self) -> float:
        now, began = self._claims.now(), time.monotonic()
        try:
            self._dispatcher.tick(now)
        finally:  # what is lost must not wait for what cannot be planned
            self._reconcile(now)
        wake_at = min(self._dispatcher.wake_at(now), self._reconcile_at or now)
        rest = (wake_at - now).total_seconds() - (time.monotonic() - began)
        return min(max(rest, 0.0), RECONCILE_EVERY.total_seconds())

    def _reconcile(self, now: datetime) -> None:
        due_at = self._reconcile_at or now
        if now >= due_at - TOGETHER or now < due_at - RECONCILE_EVERY:
            self._reconcile_at = now + RECONCILE_EVERY
            self._reconciler.tick(now)


def scheduler_loop(container: Container) -> Loop:
    """Wire the loop of a scheduler; it survives whatever its servers do."""
    scheduling = Scheduling(
        claims=container.claims(),
        dispatcher=container.dispatcher(),
        reconciler=container.reconciler(),
    )
    return Loop("scheduler", scheduling.round)


def told(container: Container) -> Iterator[Line]:
    """Tell what is known of what is due."""
    looked_at, next_due = container.dispatcher().outlook
    seen = f"{looked_at:%H:%M:%S}Z" if looked_at else "never yet"
    due = f"{next_due:%Y-%m-%d %H:%M}Z" if next_due else "nothing"
    yield f"Scheduler: looked for edits at {seen}, due next: {due}", {}


async def run(container: Container, stopping: Stopping, state: State) -> None:
    """Be a scheduler until a signal comes."""
    state.also(partial(told, container))
    broker = container.broker()
    declaring = Loop("declaration", partial(_declare, container))
    loop = scheduler_loop(container)
    declaring.start()
    loop.start()
    await stopping.asked.wait()
    stopping.resort.waits_for("the round under way")
    await asyncio.to_thread(loop.stop, patience=ROUND)
    stopping.resort.waits_for("the broker's farewell")
    await asyncio.to_thread(declaring.stop, patience=FAREWELL)
    await within(FAREWELL, "the broker's farewell", asyncio.to_thread(broker.close))
    stopping.resort.leaving()


def _declare(container: Container) -> None:
    """Declare, then try the lanes: beside the first rounds, which wait for neither."""
    container.broker().declare(container.queues())
    try_lanes(container.broker_inspection())
