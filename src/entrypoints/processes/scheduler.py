"""A scheduler's life: dispatch at each due instant, reconcile every few seconds."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial

import attrs

from cronhare.application.events import relay
from cronhare.application.heartbeat import LEAVING
from cronhare.application.logs import say
from cronhare.application.scheduling.chores import probe_lanes
from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.application.scheduling.lapses import GapDetector
from cronhare.application.scheduling.reconcile import Reconciler
from cronhare.domain.events.targets import Subscribers, Subscriptions, without, without_programs
from cronhare.domain.nodes import CLOSING
from cronhare.domain.texts.moments import say_due, say_time
from cronhare.ports import LedgerUnavailable
from cronhare.ports.claims import ClaimStorePort
from cronhare.ports.system import ClockPort

from ..signals import Shutdown
from ..working import WorkingContainer, announcers_of
from .lifetime import StateLine, StateReport, answers, offset_of
from .loops import Loop, Rings, start_all, stop_all, wait_at_most
from .reloading import warn_of_untellable

log = logging.getLogger(__name__)

#: How often a replica looks for what is overdue or lost: as often as it refreshes by default.
#: Graces and leases are longer, and twice as often makes an idle minute cost nearly twice as much.
RECONCILE_EVERY = timedelta(seconds=5)

#: So much earlier it reconciles if it is awake anyhow.
TOGETHER = timedelta(milliseconds=100)

#: Seconds between two looks at whether there is to be alerted; it is judged once a minute.
LOOK_FOR_ALERTS_EVERY = 10.0

#: Seconds that the round under way may take in a shutdown: it is the grace of a scheduler.
ROUND = 10.0

#: Seconds for what is being told, and for what is being declared.
LAST_WORDS = 5.0


@attrs.define(kw_only=True, eq=False)
class SchedulerRound:
    """Dispatches and reconciles once, between two rests.

    The ledger's clock decides what is due; *clock* is a stopwatch alone.
    """

    _claims: ClaimStorePort
    _dispatcher: Dispatcher
    _reconciler: Reconciler
    _clock: ClockPort
    _lease: timedelta
    _gaps: GapDetector = attrs.field(init=False)
    _dispatched: bool = attrs.field(init=False, default=True)
    _reconcile_at: datetime | None = attrs.field(init=False, default=None)
    _is_called: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._gaps = GapDetector(every=RECONCILE_EVERY, lease=self._lease)
        why = "this scheduler has just begun, and knows of no outage before"
        self._reconciler.begin_grace(why)

    def round(self) -> float:
        now, began = self._look()
        try:
            self._dispatch(now)
        finally:  # what is lost must not wait for what cannot be planned
            self._reconcile(now)
        wake_at = min(self._dispatcher.wake_at(now), self._reconcile_at or now)
        rest = (wake_at - now).total_seconds() - (self._clock.monotonic() - began)
        return min(max(rest, 0.0), RECONCILE_EVERY.total_seconds())

    def call(self) -> None:
        """Have the next round reconcile, whenever that is: something was claimed by hand."""
        self._is_called = True

    def _look(self) -> tuple[datetime, float]:
        with self._grace_if_away():
            now = self._claims.now()
        at = self._clock.monotonic()
        if (gap := self._gaps.check(now, at)) is not None:
            self._reconciler.begin_grace(gap)
        return now, at

    def _dispatch(self, now: datetime) -> None:
        """Dispatch. Where that failed before, renewals may have failed too: owners get a grace."""
        is_back, self._dispatched = not self._dispatched, False
        self._dispatcher.tick(now)
        self._dispatched = True
        if is_back:
            self._reconciler.begin_grace()

    def _reconcile(self, now: datetime) -> None:
        due_at = self._reconcile_at or now
        is_due = now >= due_at - TOGETHER or now < due_at - RECONCILE_EVERY
        if is_due or self._is_called:
            self._reconcile_at, self._is_called = now + RECONCILE_EVERY, False
            with self._grace_if_away():
                self._reconciler.tick(now)

    @contextmanager
    def _grace_if_away(self) -> Iterator[None]:
        try:
            yield
        except LedgerUnavailable:
            self._reconciler.begin_grace()
            raise


def scheduler_round(container: WorkingContainer) -> SchedulerRound:
    return SchedulerRound(
        claims=container.claims(),
        dispatcher=container.dispatcher(),
        reconciler=container.reconciler(),
        clock=container.clock(),
        lease=container.settings().lease,
    )


def scheduler_loops(
    container: WorkingContainer, *, rings: Rings | None = None, stands_in: bool = False
) -> list[Loop]:
    """Make the loops of a scheduler, and let the probes ask for what they need.

    *rings* call the first one. Who *stands in* for workers is as in `alert_loop`.
    """
    vitals = container.vitals()
    vitals.proofs.need("ledger", partial(answers, container.claims()))
    vitals.proofs.need("broker", container.broker().is_reachable)
    vitals.measures_ledger = True
    scheduler = scheduler_round(container)
    return [
        Loop("scheduler", scheduler.round, ends_within=ROUND, rings=rings, on_ring=scheduler.call),
        Loop("replay", container.replayer().round, ends_within=ROUND),
        alert_loop(container, stands_in=stands_in),
    ]


def alert_loop(container: WorkingContainer, *, stands_in: bool = False) -> Loop:
    """Make the loop that judges alerts: workers do so as well, but all of them may be gone.

    Who *stands in* for them judges those of its file's schedules too, and adds what is to be told.
    What nobody was there to tell it gives up as they would: a worker that comes back after days
    would tell it.
    """
    judge, claims = container.ledger_judge(), container.claims()
    announcers = announcers_of(container)

    def look() -> float:
        now = claims.now()
        asking = [each for each in announcers if stands_in and each.subscribers.current.alerted]
        for each in asking:
            each.expire(now)
            each.alerts.look(each.subscribers.current, now)
        if not asking:
            judge.look(now)
        return LOOK_FOR_ALERTS_EVERY

    return Loop("alerts", look, ends_within=ROUND)


def state_lines(container: WorkingContainer) -> Iterator[StateLine]:
    looked_at, next_due = container.dispatcher().outlook
    seen = say_time(looked_at) if looked_at else "never yet"
    due = say_due(next_due) if next_due else "nothing"
    yield f"Scheduler: looked for edits at {seen}, due next: {due}", {}


class StandIn:
    """Tells those targets for alerts alone that need no program of this host."""

    def __init__(self, container: WorkingContainer) -> None:
        self._container = container
        given = [each.subscribers.current for each in announcers_of(container)]
        self._told = [Subscribers() for _ in given]
        self.take(given)

    def take(self, given: Sequence[Subscriptions]) -> None:
        """Tell from now on the targets of a file, and of an app beside it.

        Those that this host cannot tell are logged.
        """
        for told, subscriptions in zip(self._told, given, strict=False):
            asked = without_programs(subscriptions)
            lacking = warn_of_untellable(asked, self._container.settings())
            told.current = without(lacking, asked)

    async def run(self, ending: asyncio.Event) -> None:
        relays = [
            self._container.outbox_relay(subscribers=told, only_after=relay.STAND_IN_AFTER)
            for told in self._told
        ]
        await asyncio.gather(*(each.run(ending) for each in relays))


async def run(
    container: WorkingContainer, shutdown: Shutdown, state: StateReport, *, stand_in: StandIn
) -> None:
    """Be a scheduler until a signal comes; *stand_in* tells of alerts what no worker tells."""
    state.add(partial(state_lines, container))
    broker, vitals, forced_exit = container.broker(), container.vitals(), shutdown.forced_exit
    heartbeat = container.heartbeat(role="scheduler", queues=container.queues())
    vitals.clock_offset = offset_of(heartbeat)
    # Beside the first rounds, which do not wait for it. It ends, so no probe watches it.
    declaring = Loop("declaration", partial(_declare, container), ends_within=LAST_WORDS)
    declaring.start()
    loops = [
        *scheduler_loops(container, stands_in=True),
        Loop("heartbeat", heartbeat.round, ends_within=LEAVING, at_end=heartbeat.leave),
    ]
    start_all(loops, vitals)
    telling = asyncio.create_task(stand_in.run(shutdown.requested), name="events")
    refresh = container.settings().refresh.total_seconds()
    say(log, logging.INFO, "begun", f"Scheduling; edits are seen within {refresh:g} s")
    await shutdown.requested.wait()
    forced_exit.waits_for("the round under way")
    told = asyncio.wait([telling], timeout=LAST_WORDS)
    await asyncio.gather(stop_all([declaring, *loops]), told)
    forced_exit.waits_for("the broker's farewell")
    await wait_at_most(CLOSING, "the broker's farewell", asyncio.to_thread(broker.close))
    forced_exit.leaving()


def _declare(container: WorkingContainer) -> None:
    container.broker().declare(container.queues())
    probe_lanes(container.broker_inspection())
