"""Celery over AMQP without results, its acks late, so that it loses nothing either."""

import os
import sys
import time

from celery import Celery
from marks import mark, run_true

app = Celery("peer", broker=os.environ["PEER_BROKER"].replace("amqp://", "pyamqp://"))
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    task_default_queue="peer",
    worker_prefetch_multiplier=32,
    broker_connection_retry_on_startup=True,
)

if os.environ.get("PEER_CONFIRMS"):
    app.conf.broker_transport_options = {"confirm_publish": True}

nothing = app.task(mark, name="nothing")
command = app.task(run_true, name="command")

if __name__ == "__main__":
    what, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    if what == "rate":
        nothing.delay(0)
        began = time.perf_counter()
        for number in range(count):
            nothing.delay(number)
        print(count / (time.perf_counter() - began))
        sys.exit()
    task = {"nothing": nothing, "command": command}[what]
    for _ in range(count):
        task.delay(time.monotonic_ns() if pause else 0)
        time.sleep(pause)
