"""Ways to bring attempts about and how they end; a waiting room, and the clock of a node."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import attrs

from cronhare.application.worker.unhandled import PLACES, WaitingRoom
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.schedules.planning import HEAD_START
from cronhare.domain.topology import WAITING_QUEUE
from cronhare.ports.broker import Delivery
from cronhare.ports.runner import AttemptResult, Invocation
from tests.frozen_clock import FrozenClock
from tests.ports import ids_of
from tests.scripted_runner import Script, succeed
from tests.trial_broker import TrialConnection
from tests.unit.application.house import House

SUCCESS = Outcome(ending=Ending.SUCCEEDED, exit_code=0)
CRASH = Outcome(ending=Ending.CRASHED, signal=11, error=TaskError(message="killed by SIGSEGV"))


def failure(
    message: str = "Connection timeout",
    *,
    code: str | None = None,
    error_class: ErrorClass = ErrorClass.UNKNOWN,
    retry_after: timedelta | None = None,
    stack: str | None = None,
) -> Outcome:
    """End badly, as a task says."""
    error = TaskError(
        message=message, code=code, error_class=error_class, retry_after=retry_after, stack=stack
    )
    return Outcome(ending=Ending.FAILED, exit_code=1, error=error)


def always(outcome: Outcome) -> Script:
    """End every attempt alike."""
    return lambda _: outcome


def one_by_one(outcomes: Iterable[Outcome]) -> Script:
    """End the attempts one after the other, then well."""
    left = iter(outcomes)
    return lambda _: next(left, SUCCESS)


class Seen:
    """Remembers each invocation, and ends it as a script says: well, unless there is another."""

    def __init__(self, script: Script = succeed) -> None:
        self.invocations: list[Invocation] = []
        self._script = script

    def __call__(self, invocation: Invocation) -> Outcome | AttemptResult:
        self.invocations.append(invocation)
        return self._script(invocation)

    @property
    def attempts(self) -> list[tuple[int, int]]:
        """The executions and attempts that were run, in order."""
        return [(each.execution_id, each.attempt) for each in self.invocations]


SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
STRANGE_ID = 999_999


def due(house: House, **changes: Any) -> None:  # noqa: ANN401
    """Publish the only run of a schedule; no worker has looked yet.

    While the broker is away it is claimed alone, once others would have been first.
    """
    house.add(schedule="1 12 2 3 *", **changes)
    house.dispatcher.tick(house.now)
    house.clock.advance(MINUTE)
    if not house.broker.is_reachable():
        house.clock.advance(HEAD_START)
    house.dispatcher.tick(house.now)


async def run(house: House, **changes: Any) -> None:  # noqa: ANN401
    """Let the only run of a schedule have its first attempt."""
    due(house, **changes)
    await house.open()
    await house.work()


async def begin(house: House, **changes: Any) -> None:  # noqa: ANN401
    """Let the only run of a schedule begin, in a house whose attempts are held."""
    due(house, **changes)
    await house.open_wide()
    await house.settle()


async def both_begin(house: House) -> tuple[int, int]:
    """Let two runs begin, in a house whose attempts are held."""
    house.add("one", schedule="1 12 2 3 *")
    await begin(house)
    one, other = house.executions()
    return one.id, other.id


async def live(house: House, duration: timedelta, step: timedelta = 5 * SECOND) -> None:
    """Let time pass for worker and reconciler, which looks as often as a scheduler's does."""
    ends = house.now + duration
    while house.now < ends:
        await house.turn(min(step, ends - house.now))


def waits(house: House) -> list[float]:
    """Tell how long each attempt after the first had to wait, in seconds."""
    attempts = house.records.attempts(house.only.id)
    pairs = pairwise(attempts)
    return [(b.started_at - (a.finished_at or b.started_at)).total_seconds() for a, b in pairs]


def foreign_body(house: House | None = None, **changes: object) -> bytes:
    """Write the task message for the schedule `report`, as somebody else would."""
    fields: dict[str, object] = {"type": "report", "id": 25}
    if house is not None:
        fields["scheduler_id"] = ids_of(house.schedules, ["report"])["report"]
    fields["params_scheduler"] = '{"a":1}'
    return json.dumps({**fields, **changes}, separators=(",", ":")).encode()


async def deliver(
    house: House,
    body: bytes,
    headers: dict[str, object] | None = None,
    *,
    message_id: str | None = None,
) -> None:
    """Let the worker have somebody else's message."""
    house.publish(body, headers, message_id=message_id)
    await house.open()
    await house.work()


class NodeClock(FrozenClock):
    """The clock of a worker's machine, which follows another and may be set."""

    def __init__(self, follows: FrozenClock) -> None:
        super().__init__(follows.now())
        self._follows = follows
        self.ahead = timedelta(0)
        self.stood = timedelta(0)

    def now(self) -> datetime:
        return self._follows.now() + self.ahead

    def peek(self) -> datetime:
        return self.now()

    def monotonic(self) -> float:
        return self._follows.monotonic() - self.stood.total_seconds()


@attrs.frozen
class Room:
    """The room, the connection that it is served by, and what is in hand."""

    room: WaitingRoom
    connection: TrialConnection
    resting: list[asyncio.Task[None]]


async def open_room(house: House) -> Room:
    """Consume what waits, as a worker does."""
    connection = house.broker.connect()
    room = WaitingRoom(
        connection,
        in_memory=False,
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
