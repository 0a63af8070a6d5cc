"""Flower with so many finished tasks in its memory; runs in an environment of its own: `peers`."""

import sys
import time
import uuid

from celery import Celery
from flower.app import Flower
from flower.options import default_options
from flower.urls import settings

NODES = [f"celery@worker-{number:02d}" for number in range(20)]


def main(port: int, count: int) -> None:
    options = default_options
    options.port, options.address, options.max_tasks = port, "127.0.0.1", count
    options.enable_events = False
    served = Flower(capp=Celery(broker="memory://"), options=options, **settings)
    state, now = served.events.state, time.time()
    for number in range(count):
        at = now - (count - number) * 0.6
        event = {
            "uuid": str(uuid.UUID(int=number)),
            "hostname": NODES[number % len(NODES)],
            "pid": 1,
            "local_received": at,
            "clock": number,
        }
        state.event({
            **event, "type": "task-received", "timestamp": at, "retries": 0,
            "name": f"reports.task_{number % 120}", "args": "()",
            "kwargs": f"{{'customer': {number % 100_000}, 'format': 'pdf'}}",
        })  # fmt: skip
        ends = "task-failed" if number % 80 == 11 else "task-succeeded"
        state.event({
            **event, "type": ends, "timestamp": at + 2, "runtime": 1.5, "result": "'done'",
            "exception": "ConnectionError('refused')",
        })  # fmt: skip
    served.start_http_server()
    served.start()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
