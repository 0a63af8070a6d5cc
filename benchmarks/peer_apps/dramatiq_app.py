"""Dramatiq with its RabbitMQ broker, as its guide sets it up; no middleware but its own."""

import os
import sys
import time

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from marks import mark, run_true

dramatiq.set_broker(RabbitmqBroker(url=os.environ["PEER_BROKER"]))

nothing = dramatiq.actor(mark, actor_name="nothing")
command = dramatiq.actor(run_true, actor_name="command")

if __name__ == "__main__":
    what, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    task = {"nothing": nothing, "command": command}[what]
    for _ in range(count):
        task.send(time.monotonic_ns() if pause else 0)
        time.sleep(pause)
