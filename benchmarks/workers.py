"""Workers in processes of their own: ours, and the original's, on the same queue.

Each is told when to begin and says how much it has done, and all of them share one clock.
"""

import asyncio
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import msgspec
import pika
from dependency_injector import providers
from original_algorithm import start_child
from production import opened
from samples import BUSY, function

from cronhare.adapters.process.apps import PythonRunner
from cronhare.adapters.process.runner import ProcessRunner
from cronhare.application.worker.delivery import Places
from cronhare.domain.messages import TaskMessage
from cronhare.domain.nodes import renewed_every
from cronhare.domain.retries.outcome import Ending, Outcome
from cronhare.domain.schedules.work import Executor
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.processes.consuming import DeliveryTasks
from cronhare.entrypoints.processes.loops import Loop
from cronhare.ports.broker import Delivery
from cronhare.ports.runner import AttemptResult, Invocation, TaskRunnerPort
from tests.scripted_runner import ScriptedRunner

_FRESH = multiprocessing.get_context("spawn")

#: Seconds that a crew may take for anything.
PATIENCE = 120.0


class Post:
    """What a worker process and its crew have in common."""

    def __init__(self) -> None:
        self.ready = _FRESH.Event()
        self.begin = _FRESH.Event()
        self.end = _FRESH.Event()
        self.done = _FRESH.Value("q", 0, lock=False)
        self.cpu = _FRESH.Value("d", 0.0, lock=False)
        self.started, self._tell = _FRESH.Pipe(duplex=False)

    def start(self) -> None:
        """Note that a task begins, and when: whoever listens at *started* hears of it."""
        self._tell.send(time.perf_counter())


Work = Callable[[Post], None]
OriginalTask = Callable[[Post, TaskMessage], object]


@attrs.frozen
class Crew:
    """Worker processes that are ready to begin."""

    posts: list[Post]

    def begin(self) -> None:
        for post in self.posts:
            post.begin.set()

    def seconds_until(self, count: int) -> float:
        """Let them begin, and tell how long it took until all was done."""
        began = time.perf_counter()
        self.begin()
        while sum(post.done.value for post in self.posts) < count:
            assert time.perf_counter() < began + PATIENCE, [post.done.value for post in self.posts]
            time.sleep(0.002)
        return time.perf_counter() - began

    def cpu(self) -> float:
        """Tell the CPU seconds of all, once they have ended."""
        return sum(float(post.cpu.value) for post in self.posts)


@contextmanager
def crew(work: Work, processes: int) -> Iterator[Crew]:
    """Start processes that do *work*, and end them."""
    posts = [Post() for _ in range(processes)]
    started: list[Any] = [_FRESH.Process(target=work, args=(post,)) for post in posts]
    for process in started:
        process.start()
    try:
        assert all(post.ready.wait(PATIENCE) for post in posts)
        yield Crew(posts)
        for post in posts:
            post.end.set()
        for process in started:
            process.join(PATIENCE)
            assert process.exitcode == 0, process.exitcode
    finally:
        for process in started:
            process.kill()


def ours(url: str, vhost: str, at_once: int, run: Callable[[Post], TaskRunnerPort]) -> Work:
    """A worker of ours, put together as `cronhare worker` does it."""
    return partial(_our_worker, url, vhost, at_once, run)


def in_process(post: Post) -> TaskRunnerPort:  # noqa: ARG001 - the shape of a runner's maker
    """Tasks that do nothing, in the worker's own process."""
    return ScriptedRunner()


def noted(post: Post) -> TaskRunnerPort:
    """The same, but somebody wants to know when each begins."""

    def begin(_: Invocation) -> Outcome:
        post.start()
        return Outcome(ending=Ending.SUCCEEDED, exit_code=0)

    return ScriptedRunner(begin)


def do_nothing(_post: Post, _message: TaskMessage) -> None:
    """The original's task of no work."""


def note_start(post: Post, _message: TaskMessage) -> None:
    """The same, but somebody wants to know when it begins."""
    post.start()


def run_true(_post: Post, message: TaskMessage) -> None:
    """The original's task in a child."""
    start_child(message)


def commands(post: Post) -> TaskRunnerPort:  # noqa: ARG001 - the shape of a runner's maker
    """Tasks as processes."""
    return ProcessRunner()


class Functions(PythonRunner):
    """Runs a function that does nothing in place of whatever task a run has."""

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self._task = function(executor)

    async def run(self, invocation: Invocation) -> AttemptResult:
        return await super().run(attrs.evolve(invocation, task=self._task))

    async def import_app(self) -> None:
        """Begin its interpreter, as peers have imported theirs before the clock runs."""
        told = {"execution_key": "-", "schedule_name": "-", "params": {}}
        numbers = dict.fromkeys(("execution_id", "scheduler_id", "attempt", "deaths", "fence"), 1)
        invocation = Invocation(**told, **numbers, due_at=BUSY, task=self._task)  # type: ignore[arg-type]
        await super().run(invocation)


def functions(executor: Executor, post: Post) -> TaskRunnerPort:  # noqa: ARG001 - as above
    """Tasks as functions of an app."""
    return Functions(executor)


def _our_worker(
    url: str, vhost: str, at_once: int, run: Callable[[Post], TaskRunnerPort], post: Post
) -> None:
    with opened(url, vhost) as container:
        asyncio.run(_work(container, at_once, run(post), post))


async def _work(container: Container, at_once: int, runner: TaskRunnerPort, post: Post) -> None:
    container.runner.override(providers.Object(runner))
    connection = container.connection()
    keeper = container.lease_keeper(stop=runner.stop)
    worker = container.worker(
        broker=connection,
        keeper=keeper,
        places=Places(at_once),
        read_again=partial(asyncio.sleep, 0),
    )
    container.ledger_clock().measure()

    async def handle(delivery: Delivery) -> None:
        await worker.handle(delivery)
        post.done.value += 1

    every = renewed_every(container.settings().lease).total_seconds()

    def renew() -> float:
        keeper.renew()
        return every

    renewing = Loop("lease keeper", renew, ends_within=PATIENCE)
    renewing.start()
    under_way = DeliveryTasks(handle)
    if isinstance(runner, Functions):
        await runner.import_app()
    post.ready.set()
    await asyncio.to_thread(post.begin.wait)
    began = _cpu()
    await connection.consume([MAIN_QUEUE], prefetch=at_once, on_delivery=under_way.accept)
    await asyncio.to_thread(post.end.wait)
    await under_way.settled()
    await renewing.stop()
    await runner.close()
    await connection.close()
    post.cpu.value = _cpu() - began


def original(vhost: str, task: OriginalTask) -> Work:
    """`cron-worker`: one message at a time, acked when its task is over. No ledger."""
    return partial(_original_worker, vhost, task)


def _original_worker(vhost: str, task: OriginalTask, post: Post) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(vhost))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)

    def receive(_channel: object, method: Any, _properties: object, body: bytes) -> None:  # noqa: ANN401
        message = msgspec.json.decode(body, type=TaskMessage)
        task(post, message)
        channel.basic_ack(method.delivery_tag)
        post.done.value += 1

    post.ready.set()
    post.begin.wait()
    channel.basic_consume(MAIN_QUEUE, receive)
    began = _cpu()
    while not post.end.is_set():
        connection.process_data_events(time_limit=0.05)
    post.cpu.value = _cpu() - began
    connection.close()


def _cpu() -> float:
    """CPU seconds of this process and of the children that it waited for."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
