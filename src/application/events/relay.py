"""Tells targets what the outbox has for them; each has places of its own.

A target that hangs or fails keeps its own places, and no other's. It is then tried ever more
rarely, one event at a time, until it hears again. Of many events of a kind it may be told together.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any, Final

import attrs

from cronhare.domain.events.outbox import (
    MOST_TOGETHER,
    WINDOW,
    OutboxRow,
    OutboxState,
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

log = logging.getLogger(__name__)

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

#: Seconds before a result is noted again that the ledger could not take, at first and at the most.
NOTED_AGAIN_AFTER: Final = 0.5
NOTED_AGAIN_AT_LATEST: Final = 5.0


@attrs.define(eq=False)
class _Room:
    """The places of one target: one, until it has heard of an event, and again after a failure.

    Then it has that only at *opens_at*. Many targets may hang at once, each for as long as its
    timeout is: so those that have failed never have all places together. *hears* is None until it
    is known.

    *told* has when it was told of each kind of event within the `WINDOW`, by this process; another
    tells by itself.
    """

    under_way: int = 0
    opens_at: float = 0.0
    pauses: Waits[float] = attrs.field(factory=lambda: Waits(FIRST_PAUSE, LONGEST_PAUSE))
    hears: bool | None = None
    told: dict[str, deque[float]] = attrs.field(factory=lambda: defaultdict(deque))

    def free(self, at: float) -> int:
        return (AT_A_TIME if self.hears else 1) - self.under_way if at >= self.opens_at else 0

    def lately(self, kind: str, at: float) -> int:
        told = self.told[kind]
        while told and told[0] <= at - WINDOW.total_seconds():
            told.popleft()
        return len(told)

    def note(self, *, hears: bool, at: float) -> None:
        """Give it all of its places, or let it rest; of several failures together one counts."""
        if hears:
            self.opens_at = 0.0
            self.pauses.reset()
        elif at >= self.opens_at:
            self.opens_at = at + self.pauses.next()
        else:
            return
        self.hears = hears


@attrs.define(kw_only=True, eq=False)
class OutboxRelay:
    """Takes what is due for the targets of this process, and tells them.

    *executor* runs what asks the ledger, or its *clock*. It takes alone what nobody else has taken
    *only_after* so long from when it was due. What it cannot tell for want of a secret, or of mail,
    is left to others for longer still.
    """

    _store: EventStorePort
    _notifier: NotifierPort
    _subscribers: Subscribers
    _clock: ClockPort
    _node: str
    _ask: LedgerThreads = attrs.field(alias="executor", converter=LedgerThreads)
    _only_after: timedelta = timedelta(0)
    _has_mail: bool = True
    _rooms: dict[str, _Room] = attrs.field(init=False, factory=lambda: defaultdict(_Room))
    _under_way: set[asyncio.Task[None]] = attrs.field(init=False, factory=set)
    _outage: Outage = attrs.field(init=False, factory=lambda: Outage(log, "Events are told again"))

    async def run(self, ending: asyncio.Event) -> None:
        """Look again and again until the end is asked for; what is under way is then given up."""
        while not ending.is_set():
            rest = FIRST_PAUSE
            try:
                rest = await self.round()
                self._outage.is_over()
            except (LedgerUnavailable, LedgerRefused) as error:
                text = "Events wait, as the ledger cannot be asked"
                self._outage.lasts(logging.ERROR, "server.unavailable", text, error)
            except Exception:
                log.exception("Telling of events met a fault", extra={"action": "loop.fault"})
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await ending.wait()
        await self.close()

    async def close(self) -> None:
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
        targets = {name: subscriptions.target(name) for name in subscriptions.names}
        free = [each for name, each in targets.items() if each and self._rooms[name].free(at) > 0]
        if not free or len(self._under_way) >= MOST_AT_A_TIME:
            return EVERY
        source, taken = subscriptions.source or "", 0
        for name in await self._ask(partial(self._due, free, source)):
            target, room = targets[name], self._rooms[name]
            most = min(room.free(at), self._places(room))
            if target is None or most <= 0 or (target.in_order and room.under_way):
                continue
            most = 1 if target.in_order else most
            for rows in await self._ask(partial(self._take, target, room, source, at, most)):
                taken += 1
                room.under_way += 1
                task = asyncio.create_task(self._tell(target, room, rows))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
        if taken and len(self._under_way) < MOST_AT_A_TIME:
            return 0.0
        return STAND_IN_EVERY if self._only_after else LOOK_EVERY

    def _places(self, room: _Room) -> int:
        left = MOST_AT_A_TIME - len(self._under_way)
        if room.hears is not False:
            return left
        failing = sum(each.under_way for each in self._rooms.values() if each.hears is False)
        return min(left, MOST_OF_FAILING - failing)

    def _due(self, targets: Collection[Target], source: str) -> Collection[str]:
        now, asked = self._clock.now(), defaultdict[timedelta, list[str]](list)
        for target in targets:
            asked[self._left_for(target)].append(target.name)
        looks = (
            self._store.due(names, source=source, due_by=now - left_for)
            for left_for, names in asked.items()
        )
        return [*chain.from_iterable(looks)]

    def _left_for(self, target: Target) -> timedelta:
        is_lacking = lacks(target, has_mail=self._has_mail) is not None
        return self._only_after + (LACKING_LEFT_FOR if is_lacking else timedelta(0))

    def _take(
        self, target: Target, room: _Room, source: str, at: float, places: int
    ) -> Sequence[Sequence[OutboxRow]]:
        now = self._clock.now()
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
            return [(row,) for row in take(limit=places)]
        pending = self._store.pending(target.name, source=source, due_by=due_by, most=MOST_TOGETHER)
        found = list[Sequence[OutboxRow]]()
        for kind, waiting in pending.items():
            left = places - len(found)
            turn = decide(waiting, lately=room.lately(kind, at), most=target.digest)
            if left <= 0 or turn is Turn.HOLD:
                continue
            if turn is Turn.EACH:
                rows = take(limit=min(waiting, left), kind=kind)
                found += [(row,) for row in rows]
                room.told[kind].extend([at] * len(rows))
            elif rows := take(limit=MOST_TOGETHER, kind=kind):
                found.append(rows)
                room.told[kind].extend([at] * (target.digest if len(rows) > 1 else 1))
        return found

    async def _tell(self, target: Target, room: _Room, rows: Sequence[OutboxRow]) -> None:
        try:
            failure = await self._notify(target, rows)
            hears = failure is None or failure.in_part
            room.note(hears=hears, at=self._clock.monotonic())
            for row in rows:
                await self._settle(row, failure)
        except Exception:
            log.exception("An event met a fault of ours", extra={"action": "fault"})
        finally:
            room.under_way -= 1

    async def _notify(self, target: Target, rows: Sequence[OutboxRow]) -> NotDelivered | None:
        end, is_for_people = None, isinstance(target.means, ByEmail | ByApprise)
        try:
            event = rows[0] if len(rows) == 1 else digest(rows)
            id_ = event.execution_id
            if id_ is not None and is_for_people and event.event in BAD_ENDS:
                with suppress(LedgerUnavailable, LedgerRefused):  # it is told without its output
                    end = (await self._ask(partial(self._store.run_ends, [id_]))).get(id_)
            await self._notifier.notify(target, event, end=end)
        except NotDelivered as why:
            return why
        except Exception as fault:
            text = f"Telling {target.name} met a fault of ours"
            log.exception("%s", text, extra={"action": "fault"})
            return NotDelivered(f"a fault of ours: {type(fault).__name__}")
        return None

    async def _settle(self, row: OutboxRow, failure: NotDelivered | None) -> None:
        """Note what came of a try; while the ledger is away again, as long as the event is ours."""
        state, wait, error = OutboxState.DELIVERED, None, None
        if failure is None:
            text = f"Told {row.target} of {row.event_key}"
            say(log, logging.DEBUG, "event.delivered", text, **_place(row))
        else:
            error = str(failure)
            text = f"{row.target} was not told of {row.event_key}: {error}"
            wait = None if failure.for_good else wait_after(row.tries, asked=failure.asked)
            if wait is None:
                state, text = OutboxState.GIVEN_UP, f"{text}. Given up after try {row.tries}"
                say(log, logging.WARNING, "event.given-up", text, **_place(row))
            else:
                state = OutboxState.WAITING
                text = f"{text}. Try {row.tries + 1} in {wait.total_seconds():g} s"
                say(log, logging.INFO, "event.not-delivered", text, **_place(row))

        def note() -> None:
            now = self._clock.now()
            next_ = None if wait is None else now + wait
            self._store.settle(row, state, now=now, next_try_at=next_, error=error)

        def is_ours() -> bool:
            return row.next_try_at is not None and self._clock.now() < row.next_try_at

        pauses = Waits(NOTED_AGAIN_AFTER, NOTED_AGAIN_AT_LATEST)
        while True:
            try:
                return await self._ask(note)
            except (LedgerUnavailable, LedgerRefused) as unknown:
                if isinstance(unknown, LedgerRefused) or not await self._ask(is_ours):
                    text = f"Whether {row.target} was told is not noted, and told again: {unknown}"
                    say(log, logging.WARNING, "event.unknown", text, **_place(row))
                    return None
            await asyncio.sleep(pauses.next())


def _place(row: OutboxRow) -> dict[str, Any]:
    run = {} if row.execution_id is None else {"execution": row.execution_id}
    return {"schedule": row.schedule_name, **run}
