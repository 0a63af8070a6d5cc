"""The loops and consumers of a process, how they end, and the signals that ask for it."""

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from cronhare.application.worker.delivery import Places
from cronhare.domain.nodes import ENDING
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.early_signals import REQUESTS
from cronhare.entrypoints.processes.consuming import Draining, ServingApart, WorkerConsumer
from cronhare.entrypoints.processes.loops import Loop, stop_all
from cronhare.entrypoints.processes.scheduler import SchedulerRound
from cronhare.entrypoints.signals import LEAVING, ForcedExit, Shutdown, SignalHandlers
from cronhare.ports import LedgerUnavailable
from tests.actors import ADA
from tests.unit.application.deliveries import SECOND, due, open_room
from tests.unit.application.house import LEASE, House

#: Seconds: whoever waits for so long hangs.
HANGS = 60.0


def given_up(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record for record in caplog.records if vars(record)["action"] == "shutdown.given-up"]
    return sorted(record.getMessage().partition(": ")[2] for record in told)


async def test_each_loop_that_does_not_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """More of them than the event loop has threads."""
    caplog.set_level(logging.WARNING)
    servers_answer, names = threading.Event(), [f"loop {n:02}" for n in range(40)]

    def hang() -> None:
        servers_answer.wait(HANGS)

    loops = [Loop(name, hang, ends_within=0.05) for name in names]
    for loop in loops:
        loop.start()

    await stop_all(loops)

    servers_answer.set()
    assert given_up(caplog) == [f"the last round of the {name}" for name in names]


async def test_a_loop_that_ends_is_not_told_and_begins_no_other_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, rounds = threading.Event(), []

    def work() -> float:
        rounds.append(1)
        begun.set()
        return HANGS

    loop = Loop("clock", work, ends_within=HANGS, at_end=lambda: rounds.append(0))
    loop.start()
    begun.wait(HANGS)

    await loop.stop()

    assert rounds == [1, 0]
    assert given_up(caplog) == []


class Ringing:
    """Rings again and again, or once."""

    def __init__(self, *, always: bool) -> None:
        self._always = always
        self._event = threading.Event()

    def wait(self, seconds: float) -> bool:
        rang = self._event.wait(seconds)
        if not self._always:
            self._event.clear()
        return rang

    def wake(self) -> None:
        self._event.set()


async def test_a_ring_ends_a_rest_and_so_does_a_stop() -> None:
    begun, again, rings, rung = threading.Event(), threading.Event(), Ringing(always=False), [0]

    def work() -> float:
        (again if begun.is_set() else begun).set()
        return HANGS

    def note() -> None:
        rung[0] += 1

    loop = Loop("scheduler", work, ends_within=HANGS / 2, rings=rings, on_ring=note)
    loop.start()
    begun.wait(HANGS)
    rings.wake()

    assert again.wait(HANGS / 2)
    assert rung == [1]
    await loop.stop()


async def test_who_has_failed_is_not_called_sooner_by_a_ring() -> None:
    rounds, failed, rings = [], threading.Event(), Ringing(always=True)
    rings.wake()

    def work() -> float:
        rounds.append(1)
        failed.set()
        raise LedgerUnavailable

    loop = Loop("scheduler", work, ends_within=HANGS, rings=rings)
    loop.start()
    failed.wait(HANGS)
    await asyncio.sleep(0.25)
    await loop.stop()

    assert rounds == [1]


def scheduling(house: House) -> SchedulerRound:
    return SchedulerRound(
        claims=house.claims,
        dispatcher=house.dispatcher,
        reconciler=house.reconciler,
        clock=house.clock,
        lease=LEASE,
    )


def test_what_was_lost_is_sent_again_although_nothing_can_be_claimed() -> None:
    house = House()
    house.broker.go_away()
    due(house)
    house.broker.come_back()
    house.clock.advance(10 * SECOND)
    house.outage.begin("next_due")

    with pytest.raises(LedgerUnavailable):
        scheduling(house).round()

    assert house.broker.depth(MAIN_QUEUE) == 1


def test_a_call_has_what_was_claimed_by_hand_published_at_once() -> None:
    house = House()
    house.add(schedule=None)
    scheduler = scheduling(house)
    scheduler.round()
    house.administrator.run_now("report", params=None, actor=ADA)
    scheduler.round()
    assert house.broker.depth(MAIN_QUEUE) == 0

    scheduler.call()
    rest = scheduler.round()

    assert house.broker.depth(MAIN_QUEUE) == 1
    assert 4 < rest <= 5


async def consumer_of(house: House) -> WorkerConsumer:
    return WorkerConsumer(
        broker=house.connection,
        worker=house.worker,
        room=(await open_room(house)).room,
        runner=house.runner,
        keeper=house.keeper,
        shutdown=Shutdown(ForcedExit(grace=0)),
    )


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_no_more_messages_are_at_hand_than_may_run_at_a_time(concurrency: int) -> None:
    house = House(holds=True)
    house.add("one", schedule="1 12 2 3 *")
    house.add("other", schedule="1 12 2 3 *")
    due(house)
    consumer = await consumer_of(house)

    assert await consumer.begin([MAIN_QUEUE], {}, concurrency=concurrency)
    await house.settle()

    assert consumer.at_hand == concurrency
    assert house.broker.depth(MAIN_QUEUE) == 3 - concurrency


@pytest.mark.parametrize("asked", ["before", "meanwhile"])
async def test_who_is_drained_before_its_broker_is_there_takes_nothing_until_it_is_taken_back(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(holds=True)
    house.add("one", schedule="1 12 2 3 *")
    due(house)
    consumer = await consumer_of(house)
    consume, answers, asks = house.connection.consume, asyncio.Event(), asyncio.Event()

    async def slowly(queues: Sequence[str], **how: Any) -> None:  # noqa: ANN401
        asks.set()
        await answers.wait()
        await consume(queues, **how)

    monkeypatch.setattr(house.connection, "consume", slowly)
    if asked == "before":
        await consumer.rest()
    beginning = asyncio.create_task(consumer.begin([MAIN_QUEUE], {}, concurrency=1))
    if asked == "meanwhile":
        await asks.wait()
        await consumer.rest()
    answers.set()
    await house.settle()
    drained = consumer.rests, consumer.at_hand
    await consumer.resume()
    begun = await beginning
    await house.settle()

    assert drained == (True, 0)
    assert (begun, consumer.rests, consumer.at_hand) == (True, False, 1)


async def test_draining_rests_and_resumes_once_for_each_change_and_ends_with_a_shutdown() -> None:
    done: list[str] = []
    shutdown = Shutdown(ForcedExit(grace=0))

    async def rest() -> None:
        done.append("rest")

    async def resume() -> None:
        done.append("resume")

    draining = Draining(rest=rest, resume=resume, shutdown=shutdown)
    following = asyncio.create_task(draining.follow())
    for drain, changes in ((False, 0), (True, 1), (True, 1), (False, 2), (True, 3)):
        # As the heartbeat does: from a thread, again and again.
        await asyncio.to_thread(draining.told, drain)
        async with asyncio.timeout(5):
            while len(done) != changes:  # noqa: ASYNC110 - what it waits for tells nobody
                await asyncio.sleep(0)
    shutdown.requested.set()
    await asyncio.wait_for(following, 5)

    assert done == ["rest", "resume", "rest"]


async def test_a_shutdown_does_not_wait_for_a_broker_that_hangs_while_it_drains() -> None:
    shutdown = Shutdown(ForcedExit(grace=0))
    asked, hang = asyncio.Event(), asyncio.Event()

    async def rest() -> None:
        asked.set()
        await hang.wait()

    draining = Draining(rest=rest, resume=rest, shutdown=shutdown)
    following = asyncio.create_task(draining.follow())
    draining.told(drain=True)
    await asyncio.wait_for(asked.wait(), 5)
    shutdown.requested.set()

    await asyncio.wait_for(following, 2)


@attrs.define
class Slow:
    """A consumer as brokers are: what is consumed already is not consumed twice."""

    consumed: set[str] = attrs.field(factory=set[str])
    calls: asyncio.Queue[str] = attrs.field(factory=asyncio.Queue[str])

    async def begin_apart(self, queue: str) -> None:
        self.consumed.add(queue)
        self.calls.put_nowait("begin")

    async def leave(self, queue: str) -> None:
        await asyncio.sleep(0)
        self.consumed.discard(queue)
        self.calls.put_nowait("leave")


def serving_by(consumer: Any) -> ServingApart:  # noqa: ANN401
    heartbeat: Any = SimpleNamespace(queues=("mails",), concurrency=1)
    return ServingApart(consumer=consumer, places=Places(1), heartbeat=heartbeat)


async def test_what_is_served_again_before_it_has_been_left_is_consumed() -> None:
    slow = Slow()
    serving = serving_by(slow)
    serving.serve("pump")
    async with asyncio.timeout(30):
        calls = [await slow.calls.get()]
        serving.leave("pump")
        serving.serve("pump")
        calls += [await slow.calls.get(), await slow.calls.get()]

    assert calls == ["begin", "leave", "begin"]
    assert slow.consumed == {"pump"}


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in REQUESTS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_an_answer_that_hangs_keeps_no_other_signal_waiting_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers, freed, told = SignalHandlers(timeout=0.01), asyncio.Event(), asyncio.Event()
    begun, hangs = list[asyncio.Event](), asyncio.Event()

    async def hang() -> None:
        begun.append(freed)
        hangs.set()
        await freed.wait()

    async def tell() -> None:
        told.set()

    handlers.listen({signal.SIGHUP: hang, signal.SIGUSR1: tell})
    try:
        signal.raise_signal(signal.SIGHUP)
        await hangs.wait()
        for _ in range(100):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGUSR1)
        await told.wait()
    finally:
        for number in REQUESTS:
            asyncio.get_running_loop().remove_signal_handler(number)

    assert len(begun) == 1, "no second thread for what hangs"
    async with asyncio.timeout(5):
        while "No answer to SIGHUP within 0.01 s" not in caplog.text:  # noqa: ASYNC110 - it is the log
            await asyncio.sleep(0.01)
    hangs.clear()
    freed.set()
    await hangs.wait()
    await asyncio.sleep(0.01)
    assert len(begun) == 2, "one for all that came meanwhile"


class Seconds:
    def __init__(self, *times: float) -> None:
        self._times = list(times)

    def __call__(self) -> float:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


def limits(signals: int, *, grace: float) -> list[float]:
    forced_exit = ForcedExit(grace=grace, clock=lambda: 1000.0)
    for _ in range(signals):
        forced_exit.signalled()
    return [forced_exit._ends.get() - 1000.0 for _ in range(signals)]


def test_a_second_signal_takes_the_grace_away_and_a_third_the_rest() -> None:
    assert limits(4, grace=30.0) == [30.0 + ENDING, ENDING, 0.0, 0.0]


def test_nobody_waits_beyond_the_soonest_end() -> None:
    forced_exit = ForcedExit(grace=30.0, clock=Seconds(0.0, 0.0, 5.0))
    forced_exit.signalled()
    forced_exit.signalled()
    forced_exit.signalled()

    forced_exit.wait()  # the third signal's end is now, though the first one's is not


def test_threads_that_are_left_have_a_time_of_their_own() -> None:
    forced_exit = ForcedExit(grace=3600.0, clock=Seconds(0.0, 0.0, LEAVING + 1))
    forced_exit.signalled()
    forced_exit.leaving()

    forced_exit.wait()
