"""Messages that came again: who held them before, and whether they end whoever takes them."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, Final

import attrs

from cronhare.domain.retries.crashes import Crash, CrashPolicy
from cronhare.domain.retries.redeliveries import Holder, crashes_of
from cronhare.domain.texts.listing import counted
from cronhare.ports.attempts import RedeliveryStorePort
from cronhare.ports.broker import Delivery
from cronhare.ports.errors import LedgerRefused, LedgerUnavailable

from .ledger import WorkerLedger

#: Seconds that the turn of one message lasts at most: who has it for so long does not die of it,
#: but waits for the ledger; and others must not wait with it.
LONGEST_TURN: Final = 1.0


@attrs.define(kw_only=True, eq=False)
class Redelivered:
    """Notes what this worker has in hand. Nothing is asked of a message that comes first.

    Those that came again are taken one by one, each until its run has begun, or for a second. So
    the note that a worker leaves as it dies is of the one that ended it, and of no neighbour.
    *lives* tells whether a PID of our own place is in use.
    """

    _ledger: WorkerLedger
    _store: RedeliveryStorePort
    _us: Holder
    _policy: CrashPolicy
    _lives: Callable[[int], bool]
    _turn: asyncio.Lock = attrs.field(init=False, factory=asyncio.Lock)
    _in_turn: object = attrs.field(init=False, default=None)
    _held: dict[object, str] = attrs.field(init=False, factory=dict[object, str])
    _taking_back: set[asyncio.Task[None]] = attrs.field(init=False, factory=set[asyncio.Task[None]])
    _is_draining: bool = attrs.field(init=False, default=False)

    def drain(self) -> None:
        """From now on note nothing: it is given back, and a note might not be taken back."""
        self._is_draining = True

    async def take(self, delivery: Delivery) -> tuple[Crash, ...]:
        """Note that a message is taken; answers the crashes for which it is a poison pill.

        Without the ledger nothing is known, and nothing held against it.
        """
        if not delivery.redelivered:
            return ()
        await self._turn.acquire()
        if self._is_draining:
            self._turn.release()
            return ()
        name, clock = _name_of(delivery), self._ledger.clock
        self._held[delivery.tag] = name
        self._in_turn = delivery
        asyncio.get_running_loop().call_later(LONGEST_TURN, self._is_no_pill, delivery)

        def hold() -> tuple[Crash, ...]:
            now = clock.now()
            holds = self._store.hold(name, holder=self._us, now=now)
            return crashes_of(holds, us=self._us, now=now, policy=self._policy, lives=self._lives)

        try:
            crashes = await self._ledger.in_thread(hold)
        except (LedgerUnavailable, LedgerRefused):
            crashes = ()
        if self._in_turn is not delivery:  # it was taken back before it was written
            await self._take_back(name)
        return crashes if len(crashes) >= self._policy.limit else ()

    async def let_go(self, delivery: Delivery) -> None:
        """Take the note back: it has been settled, is given back, or the ledger knows it runs."""
        if (name := self._held.pop(delivery.tag, None)) is not None:
            try:
                await self._take_back(name)
            finally:
                self._end_turn(delivery)

    def _is_no_pill(self, delivery: Delivery) -> None:
        """Take the note back after the longest turn: a death from now on is not of this one.

        `let_go` may be about it already, and wait for the ledger; others must not wait with it.
        """
        if self._in_turn is not delivery:
            return
        self._end_turn(delivery)
        if (name := self._held.get(delivery.tag)) is not None:
            task = asyncio.create_task(self._take_back(name))
            self._taking_back.add(task)
            task.add_done_callback(self._taking_back.discard)

    async def _take_back(self, name: str) -> None:
        let_go: Any = partial(self._store.let_go, name, node=self._us.node)
        with suppress(LedgerUnavailable, LedgerRefused):
            await self._ledger.in_thread(let_go)

    def _end_turn(self, delivery: Delivery) -> None:
        if self._in_turn is delivery:
            self._in_turn = None
            self._turn.release()

    def reason(self, crashes: tuple[Crash, ...]) -> str:
        """Say what it did, for which it is quarantined."""
        times = counted(len(crashes), "time")
        window = f"{self._policy.window.total_seconds():g} s"
        return f"ended its worker {times} within {window}, before a run had begun"


def _name_of(delivery: Delivery) -> str:
    """Name a message: by its id, or by its body where it has none."""
    message = delivery.message
    content = message.body if message.id is None else message.id.encode(errors="replace")
    return sha256(delivery.queue.encode(errors="replace") + b"\0" + content).hexdigest()
