"""What workers do with a full queue, with a single message, and with nothing at all."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import resting
import workers
from figures import Figure
from production import Production, opened
from samples import BUSY, size
from sqlalchemy import make_url

from cronhare.ports.runner import TaskRunnerPort
from tests.services import mariadb

RUNS = size(3, 1)
PROCESSES = size((1, 2), (2,))

#: How many are run, by how many at a time: each case takes a few seconds.
NOTHING = size({1: 1_000, 8: 8_000, 64: 16_000}, {8: 60})
COMMANDS = size({8: 3_000, 64: 6_000}, {8: 60})

Runner = Callable[[workers.Post], TaskRunnerPort]


def work(servers: Production) -> list[Figure]:
    """Empty a full queue: tasks that do nothing, and `/bin/true`; and wait for work."""
    nothing = partial(_figure, servers, "no work", runner=workers.in_process)
    commands = partial(_figure, servers, "/bin/true", runner=workers.commands)
    figures = []
    for processes in PROCESSES:
        theirs = _original(servers, NOTHING[8], processes, workers.do_nothing)
        figures += [
            nothing(count, at_once, processes, theirs=theirs, goal=_goal(3_000, at_once, processes))
            for at_once, count in NOTHING.items()
        ]
    for processes in PROCESSES:
        theirs = _original(servers, COMMANDS[8], processes, workers.run_true)
        for at_once, count in COMMANDS.items():
            goal = _goal(1_000, at_once, processes)
            figures.append(commands(count, at_once, processes, theirs=theirs, goal=goal))
    return [*figures, *resting.figures(servers)]


def _goal(least: float, at_once: int, processes: int) -> float | None:
    """Ask it of the best case alone."""
    return least if (at_once, processes) == (64, 2) else None


def _figure(
    servers: Production,
    what: str,
    count: int,
    at_once: int,
    processes: int,
    *,
    runner: Runner,
    theirs: float,
    goal: float | None,
) -> Figure:
    runs = [run_once(servers, count, at_once, processes, runner) for _ in range(RUNS)]
    rate, cpu = (statistics.median(each) for each in zip(*runs, strict=True))
    return Figure(
        what=f"{what}, {at_once} at a time, in {processes} process{'es' * (processes > 1)}",
        ours=rate,
        unit="/s",
        goal=goal,
        theirs=theirs,
        note=f"median of {RUNS}; {cpu * 1e6:.0f} us of CPU each; theirs 1 at a time, no ledger",
    )


def run_once(
    servers: Production, count: int, at_once: int, processes: int, runner: Runner
) -> tuple[float, float]:
    """Give the executions of a second, and the workers' CPU seconds for one."""
    with full_queue(servers, count) as (url, vhost):
        worker = workers.ours(url, vhost, at_once, runner)
        with workers.crew(worker, processes) as crew:
            seconds = crew.seconds_until(count)
        _check(url, count)
    return count / seconds, crew.cpu() / count


def _original(servers: Production, count: int, processes: int, task: workers.OriginalTask) -> float:
    rates = []
    for _ in range(RUNS):
        with (
            full_queue(servers, count) as (_, vhost),
            workers.crew(workers.original(vhost, task), processes) as crew,
        ):
            rates.append(count / crew.seconds_until(count))
    return statistics.median(rates)


@contextmanager
def full_queue(servers: Production, count: int) -> Iterator[tuple[str, str]]:
    """Give the URLs of a ledger and of a broker: *count* executions are published and marked."""
    url = servers.ledger(count, busy=count)
    with servers.broker.vhost() as vhost:
        with opened(url, vhost) as container:
            container.broker().declare(container.queues())
            tick = container.dispatcher().tick(BUSY)
            assert tick.published == count, tick
        yield url, vhost


def _check(url: str, count: int) -> None:
    """See that the ledger knows all of it."""
    ended = "SELECT COUNT(*) FROM {} WHERE {}"
    [[executions]] = mariadb.run(
        make_url(url), ended.format("SchedulerExecution", "state = 'succeeded'")
    )
    [[attempts]] = mariadb.run(make_url(url), ended.format("ExecutionAttempt", "exit_code = 0"))
    assert executions == attempts == count, (executions, attempts)
