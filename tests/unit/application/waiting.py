"""A worker's waiting room on a frozen clock."""

import asyncio
from collections.abc import Awaitable, Callable

import attrs

from cronhare.application.worker.unhandled import PLACES, WaitingRoom
from cronhare.domain.topology import WAITING_QUEUE
from cronhare.ports.broker import Delivery
from tests.frozen_clock import FrozenClock
from tests.trial_broker import TrialConnection
from tests.unit.application.house import House


@attrs.frozen
class Room:
    """The room, the connection that it is served by, and what is in hand."""

    room: WaitingRoom
    connection: TrialConnection
    resting: list[asyncio.Task[None]]


async def open_room(house: House, *, in_memory: bool = False) -> Room:
    """Consume what waits, as a worker does."""
    connection = house.broker.connect()
    room = WaitingRoom(
        connection,
        in_memory=in_memory,
        sleep=sleeping_on(house.clock),
        monotonic=house.clock.monotonic,
    )
    opened = Room(room, connection, [])

    def accept(delivery: Delivery) -> None:
        opened.resting.append(asyncio.create_task(room.handle(delivery)))

    await connection.consume([WAITING_QUEUE], prefetch=PLACES, on_delivery=accept)
    await house.settle()
    return opened


def sleeping_on(clock: FrozenClock) -> Callable[[float], Awaitable[None]]:
    """Sleep until the clock was moved on for long enough."""
    moved = asyncio.Condition()
    calls = set[asyncio.Task[None]]()

    async def tell() -> None:
        async with moved:
            moved.notify_all()

    def on_jump() -> None:
        call = asyncio.ensure_future(tell())
        calls.add(call)
        call.add_done_callback(calls.discard)

    clock.on_jump(on_jump)

    async def sleep(seconds: float) -> None:
        until = clock.monotonic() + seconds - 1e-6
        async with moved:
            await moved.wait_for(lambda: clock.monotonic() >= until)

    return sleep
