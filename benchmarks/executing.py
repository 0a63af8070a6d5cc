"""From a due instant to a finished execution, in one process; and commands by themselves.

The clock runs from the tick that claims to the last ack. Log lines are off.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from dependency_injector import providers
from figures import Figure
from original_algorithm import OriginalScheduler, start_child, work_off
from rig import Ledgers, ShiftedClock, opened
from samples import BUSY, TRUE, function, size

from cronhare.adapters.process.apps import PythonRunner
from cronhare.adapters.process.runner import ProcessRunner
from cronhare.adapters.system.clock import SystemClock
from cronhare.application.worker.delivery import Places
from cronhare.application.worker.unhandled import WaitingRoom
from cronhare.domain.messages import TaskMessage
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.schedules.task import Task
from cronhare.domain.schedules.work import Executor
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.processes.consuming import WorkerConsumer
from cronhare.entrypoints.signals import ForcedExit, Shutdown
from cronhare.ports.runner import Invocation, TaskRunnerPort
from tests.scripted_runner import ScriptedRunner
from tests.trial_broker import TrialBroker

#: How many are run, by how many at a time: each case takes a few seconds.
SCRIPTED = size({1: 1_000, 8: 4_000, 64: 10_000}, dict.fromkeys((1, 8, 64), 60))
COMMANDS = size({1: 500, 8: 2_000}, {1: 60, 8: 60})
AS_EXECUTIONS = size(2_000, 60)


def executions(ledgers: Ledgers) -> list[Figure]:
    """Run tasks that do nothing: what is measured is everything around them."""
    nothing = _original_rate(ledgers, SCRIPTED[1], lambda _: None)
    child = _original_rate(ledgers, COMMANDS[1], start_child)
    alone = "the runner alone"
    return [
        *(
            Figure(
                what=f"executions of no work, {at_once} at a time",
                ours=asyncio.run(_rate(ledgers, count, at_once, ScriptedRunner)),
                unit="/s",
                theirs=nothing,
                note="theirs 1 at a time, without fence or results",
            )
            for at_once, count in SCRIPTED.items()
        ),
        Figure(what="/bin/true, 1 at a time", ours=_commands(1), unit="/s", note=alone),
        Figure(what="/bin/true, 8 at a time", ours=_commands(8), unit="/s", goal=1_000, note=alone),
        *(
            Figure(
                what=f"a function that does nothing by {executor}, {at_once} at a time",
                ours=asyncio.run(_functions(executor, at_once)),
                unit="/s",
                note=alone,
            )
            for executor in (Executor.FORK, Executor.POOL, Executor.ASYNC)
            for at_once in COMMANDS
        ),
        Figure(
            what="executions of /bin/true, 8 at a time",
            ours=asyncio.run(_rate(ledgers, AS_EXECUTIONS, 8, ProcessRunner)),
            unit="/s",
            theirs=child,
            note="theirs 1 at a time",
        ),
    ]


async def _rate(
    ledgers: Ledgers, count: int, at_once: int, runner: Callable[[], TaskRunnerPort]
) -> float:
    """Let *count* schedules be due at once, and tell how many a second came to their end."""
    with ledgers.copy(count, busy=count) as path, opened(path, ShiftedClock(BUSY)) as container:
        container.runner.override(providers.Object(runner()))
        connection = container.broker().connect()
        keeper = container.lease_keeper(stop=container.runner().stop)
        worker = container.worker(
            broker=connection,
            keeper=keeper,
            places=Places(at_once),
            read_again=partial(asyncio.sleep, 0),
        )
        runs = container.runner()
        working = WorkerConsumer(
            broker=connection,
            worker=worker,
            room=WaitingRoom(connection, in_memory=False),
            runner=runs,
            keeper=keeper,
            shutdown=Shutdown(ForcedExit(grace=0.0)),
        )
        await working.begin([MAIN_QUEUE], {}, concurrency=at_once)
        began = time.perf_counter()
        await asyncio.to_thread(container.dispatcher().tick, BUSY)
        while worker.counters.succeeded < count:  # noqa: ASYNC110 - it counts, and tells nobody
            await asyncio.sleep(0.005)
        seconds = time.perf_counter() - began
        await container.runner().close()
        await connection.close()
    return count / seconds


def _original_rate(ledgers: Ledgers, count: int, execute: Callable[[TaskMessage], object]) -> float:
    """The same by the original algorithm: scheduler and worker, one after the other."""
    broker = TrialBroker(SystemClock())
    with ledgers.copy(count, busy=count) as path, OriginalScheduler(path, broker) as original:
        began = time.perf_counter()
        original.dispatch(original.matching(original.load(), BUSY), BUSY)
        done = work_off(broker, execute)
        seconds = time.perf_counter() - began
    assert done == count
    return count / seconds


def _commands(at_once: int) -> float:
    return asyncio.run(_runs(COMMANDS[at_once], at_once, ProcessRunner(), TRUE))


async def _functions(executor: Executor, at_once: int) -> float:
    count = COMMANDS[at_once] * (1 if executor is Executor.FORK else 4)
    return await _runs(count, at_once, PythonRunner(), function(executor))


async def _runs(count: int, at_once: int, runner: TaskRunnerPort, task: Task) -> float:
    """Run a task in as many loops as may run at a time, once that what runs it has begun."""
    await runner.run(_invocation(count + 1, task))
    coming = iter(range(1, count + 1))

    async def run_until_none_is_left() -> None:
        for number in coming:
            ran = await runner.run(_invocation(number, task))
            assert ran.outcome.ending is Ending.SUCCEEDED, ran

    began = time.perf_counter()
    await asyncio.gather(*(run_until_none_is_left() for _ in range(at_once)))
    seconds = time.perf_counter() - began
    await runner.close()
    return count / seconds


def _invocation(number: int, task: Task) -> Invocation:
    return Invocation(
        execution_id=number,
        execution_key="cron-2026-5-5-5-17",
        scheduler_id=number,
        schedule_name="bench",
        attempt=1,
        deaths=0,
        due_at=BUSY,
        fence=number,
        task=task,
        params={},
    )
