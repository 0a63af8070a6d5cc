"""Tells targets what the outbox has for them; each has places of its own.

A target that hangs or fails keeps its own places, and no other's. It is then tried ever more
rarely, one event at a time, until it hears again. Of many events of a kind it may be told together.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from datetime import timedelta
from functools import partial
from typing import Any, Final

import attrs

from cronhare.domain.events.outbox import (
    MOST_TOGETHER,
    WINDOW,
    OutboxRow,
    OutboxState,
    RunEnd,
    Turn,
    decide,
    digest,
    wait_after,
)
from cronhare.domain.events.targets import (
    BAD_ENDS,
    ByApprise,
    ByEmail,
    Subscribers,
    Subscriptions,
    Target,
    lacks,
)
from cronhare.domain.nodes import PRESUMED_DEAD_AFTER
from cronhare.domain.retries.policy import Waits
from cronhare.ports import LedgerRefused, LedgerUnavailable
from cronhare.ports.events import EventStorePort, NotDelivered, NotifierPort
from cronhare.ports.system import ClockPort

from ..ledger_threads import LedgerThreads
from ..logs import say
from ..outages import Outage


class Digests:
    """Remembers what this process told whom within the window; another tells by itself."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], deque[float]] = defaultdict(deque)

    def turns(
        self, target: str, most: int, pending: Mapping[str, int], at: float, places: int
    ) -> Iterator[tuple[str, Turn, int]]:
        """Give the kinds that are told now, how, and at most how many events; within *places*."""
        for kind, waiting in pending.items():
            if places <= 0:
                return
            turn = decide(waiting, lately=self._lately(target, kind, at), most=most)
            if turn is Turn.TOGETHER:
                places -= 1
                yield kind, turn, MOST_TOGETHER
            elif turn is Turn.EACH:
                limit = min(waiting, places)
                places -= limit
                yield kind, turn, limit

    def note(self, target: str, kind: str, at: float, *, count: int) -> None:
        """Note that a target is told of so many events."""
        self._told[target, kind].extend([at] * count)

    def _lately(self, target: str, kind: str, at: float) -> int:
        told = self._told[target, kind]
        while told and told[0] <= at - WINDOW.total_seconds():
            told.popleft()
        return len(told)


log = logging.getLogger(__name__)

#: Seconds before a result is noted again that the ledger could not take, at first and at the most.
NOTED_AGAIN_AFTER: Final = 0.5
NOTED_AGAIN_AT_LATEST: Final = 5.0


class Settler:
    """Notes results of what was taken; *ask* is for the ledger, and for its *clock*."""

    def __init__(self, *, store: EventStorePort, clock: ClockPort, ask: LedgerThreads) -> None:
        self._store = store
        self._clock = clock
        self._ask = ask

    async def is_ours(self, row: OutboxRow, *, telling: timedelta) -> bool:
        """Whether telling, which takes so long at most, is over before another may take it up.

        It is not where this process stood still after it had taken the event, and went on later.
        """
        until = row.next_try_at
        if until is None or await self._ask(self._clock.now) + telling <= until:
            return True
        text = (
            f"{row.target} is not told of {row.event_key}: this process stood still after it had "
            "taken it, so another one may have it"
        )
        say(log, logging.INFO, "event.not-delivered", text, **_place(row))
        return False

    async def delivered(self, row: OutboxRow) -> None:
        """Note that it was told."""
        text = f"Told {row.target} of {row.event_key}"
        say(log, logging.DEBUG, "event.delivered", text, **_place(row))
        await self._settle(row, OutboxState.DELIVERED)

    async def not_delivered(self, row: OutboxRow, failure: NotDelivered) -> None:
        """Note that it was not: it is tried again, or given up."""
        wait = None if failure.for_good else wait_after(row.tries, asked=failure.asked)
        text = f"{row.target} was not told of {row.event_key}: {failure}"
        if wait is None:
            text = f"{text}. Given up after try {row.tries}"
            say(log, logging.WARNING, "event.given-up", text, **_place(row))
            await self._settle(row, OutboxState.GIVEN_UP, error=str(failure))
            return
        text = f"{text}. Try {row.tries + 1} in {wait.total_seconds():g} s"
        say(log, logging.INFO, "event.not-delivered", text, **_place(row))
        await self._settle(row, OutboxState.WAITING, error=str(failure), wait=wait)

    async def _settle(
        self,
        row: OutboxRow,
        state: OutboxState,
        *,
        error: str | None = None,
        wait: timedelta | None = None,
    ) -> None:
        """Note it; while the ledger is away again, until another process may take the event up."""

        def note() -> bool:
            now = self._clock.now()
            next_ = None if wait is None else now + wait
            return self._store.settle(row, state, now=now, next_try_at=next_, error=error)

        pauses = Waits(NOTED_AGAIN_AFTER, NOTED_AGAIN_AT_LATEST)
        while (unknown := await self._failure(note)) is not None:
            is_away = isinstance(unknown, LedgerUnavailable)
            if not is_away or await self._ask(lambda: self._has_lapsed(row)):
                text = f"Whether {row.target} was told is not noted, and told again: {unknown}"
                say(log, logging.WARNING, "event.unknown", text, **_place(row))
                return
            await asyncio.sleep(pauses.next())

    async def _failure(
        self, note: Callable[[], object]
    ) -> LedgerUnavailable | LedgerRefused | None:
        try:
            await self._ask(note)
        except (LedgerUnavailable, LedgerRefused) as unknown:
            return unknown
        return None

    def _has_lapsed(self, row: OutboxRow) -> bool:
        return row.next_try_at is None or self._clock.now() >= row.next_try_at


def _place(row: OutboxRow) -> dict[str, Any]:
    place: dict[str, Any] = {"schedule": row.schedule_name}
    if row.execution_id is not None:
        place["execution"] = row.execution_id
    return place


#: Seconds between two looks, where nobody is to be told of anything; where somebody is, a look
#: takes one statement. And the first wait after a target has failed.
EVERY: Final = 1.0
LOOK_EVERY: Final = EVERY / 4
FIRST_PAUSE: Final = 5.0

#: Seconds between two looks of who stands in for others; so long it leaves to them what is due.
STAND_IN_EVERY: Final = 5.0
STAND_IN_AFTER: Final = PRESUMED_DEAD_AFTER

#: What cannot be told without a secret that this process lacks is left so long to those that have
#: it, a scheduler that stands in among them: else it would use up the tries.
LACKING_LEFT_FOR: Final = 2 * STAND_IN_AFTER

#: Seconds after which a target that fails is tried again at the latest.
LONGEST_PAUSE: Final = 300.0

#: Events of one target at a time, and of all; and of all that have failed.
AT_A_TIME: Final = 4
MOST_AT_A_TIME: Final = 32
MOST_OF_FAILING: Final = 16

#: What a try may take beyond its target's timeout: until then it is this process's.
MARGIN: Final = timedelta(seconds=60)


@attrs.define(eq=False)
class _Room:
    """The places of one target: one, until it has heard of an event, and again after a failure.

    Then it has that only at *opens_at*. Many targets may hang at once, each for as long as its
    timeout is: so those that have failed never have all places together.
    """

    target: str
    under_way: int = 0
    opens_at: float = 0.0
    pauses: Waits[float] = attrs.field(factory=lambda: Waits(FIRST_PAUSE, LONGEST_PAUSE))
    is_failing: bool = False
    has_heard: bool = False

    def free(self, at: float) -> int:
        if at < self.opens_at:
            return 0
        return (AT_A_TIME if self.has_heard else 1) - self.under_way


class OutboxRelay:
    """Takes what is due for the targets of this process, and tells them."""

    def __init__(
        self,
        *,
        store: EventStorePort,
        notifier: NotifierPort,
        subscribers: Subscribers,
        clock: ClockPort,
        node: str,
        executor: Executor,
        only_after: timedelta = timedelta(0),
        has_mail: bool = True,
    ) -> None:
        """*executor* runs what asks the ledger, or its *clock*.

        It takes alone what nobody else has taken *only_after* so long from when it was due.
        What it cannot tell for want of a secret, or of mail, is left to others for longer still.
        """
        self._store = store
        self._notifier = notifier
        self._subscribers = subscribers
        self._clock = clock
        self._node = node
        self._ask = LedgerThreads(executor)
        self._only_after = only_after
        self._has_mail = has_mail
        self._settler = Settler(store=store, clock=clock, ask=self._ask)
        self._look_every = LOOK_EVERY if not only_after else STAND_IN_EVERY
        self._rooms: dict[str, _Room] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._digests = Digests()
        self._outage = Outage(log, "Events are told again")

    async def run(self, ending: asyncio.Event) -> None:
        """Look again and again until the end is asked for; what is under way is then given up.

        Whoever takes it up after its lease tells it again.
        """
        while not ending.is_set():
            try:
                rest = await self.round()
                self._outage.is_over()
            except (LedgerUnavailable, LedgerRefused) as error:
                text = "Events wait, as the ledger cannot be asked"
                self._outage.lasts(logging.ERROR, "server.unavailable", text, error)
                rest = FIRST_PAUSE
            except Exception:
                log.exception("Telling of events met a fault", extra={"action": "loop.fault"})
                rest = FIRST_PAUSE
            await _either(ending, rest)
        await self.close()

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=1.0)
        await self._notifier.close()

    async def round(self) -> float:
        """Begin what is due and has a place; answers how many seconds to rest."""
        subscriptions, at = self._subscribers.current, self._clock.monotonic()
        if subscriptions.is_empty:
            return EVERY
        names = [name for name in subscriptions.names if self._room(name).free(at) > 0]
        free = MOST_AT_A_TIME - len(self._under_way)
        source = subscriptions.source or ""
        if not names or free <= 0:
            return EVERY
        due = await self._ask(partial(self._due, subscriptions, names, source))
        taken = 0
        for name in due:
            target, room = subscriptions.target(name), self._room(name)
            most = min(room.free(at), self._places(room))
            if target is not None and target.in_order:
                most = min(most, 1 - room.under_way)
            if target is None or most <= 0:
                continue
            for rows in await self._take(target, source, most):
                taken += 1
                self._begin(target, room, rows)
        return 0.0 if taken and len(self._under_way) < MOST_AT_A_TIME else self._look_every

    async def settled(self) -> None:
        """Wait until what is under way has come to its end."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _places(self, room: _Room) -> int:
        """Count the places that are left for a target among all."""
        left = MOST_AT_A_TIME - len(self._under_way)
        if not room.is_failing:
            return left
        failing = sum(each.under_way for each in self._rooms.values() if each.is_failing)
        return min(left, MOST_OF_FAILING - failing)

    def _due(
        self, subscriptions: Subscriptions, names: Collection[str], source: str
    ) -> Collection[str]:
        """Say for which targets something is due that is not left to others."""
        now, asked = self._clock.now(), defaultdict[timedelta, list[str]](list)
        for name in names:
            if (target := subscriptions.target(name)) is not None:
                asked[self._left_for(target)].append(name)
        return [
            name
            for left_for, these in asked.items()
            for name in self._store.due(these, source=source, due_by=now - left_for)
        ]

    def _left_for(self, target: Target) -> timedelta:
        """Say how long what is due is left to others."""
        is_lacking = lacks(target, has_mail=self._has_mail) is not None
        return self._only_after + (LACKING_LEFT_FOR if is_lacking else timedelta(0))

    async def _take(self, target: Target, source: str, most: int) -> Sequence[Sequence[OutboxRow]]:
        """Take what there are places for; those of one message are together."""
        now = await self._ask(self._clock.now)
        due_by = now - self._left_for(target)
        take = partial(
            self._store.take,
            target.name,
            source=source,
            now=now,
            due_by=due_by,
            lease=target.timeout + MARGIN,
            node=self._node,
        )
        if not target.digest:
            return [(row,) for row in await self._ask(partial(take, limit=most))]
        at = self._clock.monotonic()
        count = partial(
            self._store.pending, target.name, source=source, due_by=due_by, most=MOST_TOGETHER
        )
        found, pending = list[Sequence[OutboxRow]](), await self._ask(count)
        for kind, turn, limit in self._digests.turns(target.name, target.digest, pending, at, most):
            rows = await self._ask(partial(take, limit=limit, kind=kind))
            together = turn is Turn.TOGETHER and len(rows) > 1
            self._digests.note(
                target.name, kind, at, count=target.digest if together else len(rows)
            )
            found += [rows] if together else [(row,) for row in rows]
        return found

    def _begin(self, target: Target, room: _Room, rows: Sequence[OutboxRow]) -> None:
        task = asyncio.create_task(self._tell(target, room, rows))
        self._under_way.add(task)
        room.under_way += 1
        task.add_done_callback(partial(self._done, room))

    def _done(self, room: _Room, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        room.under_way -= 1
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("An event met a fault of ours", exc_info=fault, extra={"action": "fault"})

    async def _tell(self, target: Target, room: _Room, rows: Sequence[OutboxRow]) -> None:
        if not await self._settler.is_ours(rows[0], telling=target.timeout):
            return
        failure = await self._notify(target, room, rows)
        for row in rows:
            if failure is not None:
                await self._settler.not_delivered(row, failure)
            else:
                await self._settler.delivered(row)

    async def _notify(
        self, target: Target, room: _Room, rows: Sequence[OutboxRow]
    ) -> NotDelivered | None:
        """Send one message of one event, or of many; answers why it was not heard."""
        event = rows[0] if len(rows) == 1 else digest(rows)
        try:
            await self._notifier.notify(target, event, end=await self._end_of(target, event))
        except NotDelivered as failure:
            if failure.in_part:
                self._note_hearing(room)
            else:
                self._note_failure(room)
            return failure
        except Exception as fault:
            text = f"Telling {target.name} met a fault of ours"
            log.exception("%s", text, extra={"action": "fault"})
            self._note_failure(room)
            return NotDelivered(f"a fault of ours: {type(fault).__name__}")
        self._note_hearing(room)
        return None

    async def _end_of(self, target: Target, event: OutboxRow) -> RunEnd | None:
        """Give what people are told of a bad end besides, as far as the ledger has it."""
        id_ = event.execution_id
        is_for_people = isinstance(target.means, ByEmail | ByApprise)
        if id_ is None or not is_for_people or event.event not in BAD_ENDS:
            return None
        try:
            return (await self._ask(partial(self._store.run_ends, [id_]))).get(id_)
        except (LedgerUnavailable, LedgerRefused):
            return None

    def _note_hearing(self, room: _Room) -> None:
        """Give a target all of its places."""
        room.has_heard, room.is_failing, room.opens_at = True, False, 0.0
        room.pauses.reset()

    def _note_failure(self, room: _Room) -> None:
        """Let a target rest; of several that fail together the first counts."""
        at = self._clock.monotonic()
        if at >= room.opens_at:
            room.has_heard, room.is_failing = False, True
            room.opens_at = at + room.pauses.next()

    def _room(self, name: str) -> _Room:
        return self._rooms.setdefault(name, _Room(name))


async def _either(ending: asyncio.Event, seconds: float) -> None:
    """Wait so long, or for the end."""
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout(seconds):
            await ending.wait()
    except TimeoutError:
        return
