"""A broker that stands still keeps no process from ending in good order, and nothing is lost."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
from cronhare.domain.execution import STARTABLE
from cronhare.domain.nodes import CLOSING
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.broker import Delivery
from tests.faults.arena import Arena
from tests.faults.house import has_begun
from tests.faults.jobs import EARLY
from tests.integration import amqp
from tests.services.finding import wait_until
from tests.services.proxy import Link, proxy_in_thread

pytestmark = pytest.mark.integration

#: Until what has to come has come, however busy the machine.
PATIENCE = 60.0

#: More than one connection for each kind of queue.
QUEUES = (MAIN_QUEUE, "cron_scheduler.reports", "cron_scheduler.mails")


async def test_all_subscriptions_are_closed_within_one_bound_and_their_messages_go_back(
    vhost: str,
) -> None:
    got = asyncio.Queue[Delivery]()
    async with amqp.linked(vhost) as (url, link):
        broker = AioPikaBroker(url, queues=QUEUES)
        for queue in QUEUES:
            await broker.consume([queue], prefetch=1, on_delivery=got.put_nowait)
        with amqp.channel(vhost) as plain:
            plain.basic_publish("", MAIN_QUEUE, b"{}")
        await asyncio.wait_for(got.get(), PATIENCE)
        link.freeze()
        loop = asyncio.get_running_loop()
        before, began = asyncio.all_tasks(), loop.time()
        await broker.close()
        took = loop.time() - began
        left = {task for task in before if "aiormq" in repr(task)}
        await asyncio.wait(left or {asyncio.create_task(asyncio.sleep(0))}, timeout=PATIENCE)
        link.thaw()
        await asyncio.to_thread(
            wait_until,
            lambda: amqp.depth(vhost, MAIN_QUEUE) == 1,
            seconds=PATIENCE,
            what="the message to go back",
        )

    assert took < CLOSING
    assert all(task.done() for task in left)


@pytest.fixture
def link(vhost: str) -> Iterator[tuple[str, Link]]:
    port = urlsplit(vhost).port
    assert port is not None
    with proxy_in_thread(port) as (own_port, link):
        yield vhost.replace(str(port), str(own_port)), link


def test_worker_and_scheduler_end_with_status_0_beside_it(
    link: tuple[str, Link], tmp_path: Path
) -> None:
    url, line = link
    arena = Arena(tmp_path, 0, CRON_BROKER_URL=url, CRON_SHUTDOWN_GRACE_SECONDS="1")
    arena.hold(EARLY)
    arena.apply()
    worker = arena.start("worker", "--jobs", "jobs.toml", "--concurrency", "4")
    processes = [worker, arena.start("scheduler")]
    try:
        for each in processes:
            wait_until(partial(has_begun, each), seconds=PATIENCE, what="a start")
        [held] = arena.ask_for_runs(of=[EARLY])
        wait_until(lambda: (held, 1) in arena.starts(), seconds=PATIENCE, what="the task to run")
        line.freeze()
        began = time.monotonic()
        statuses = [_ended(each) for each in processes]
        took = time.monotonic() - began
    finally:
        for each in processes:
            each.kill()
            each.wait()
    [state] = [run.state for run in arena.executions() if run.id == held]
    arena.engine.dispose()

    assert statuses == [0, 0], arena.said()[-5000:]
    assert took < PATIENCE
    assert "Traceback" not in arena.said()
    assert state in STARTABLE


def _ended(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE)
