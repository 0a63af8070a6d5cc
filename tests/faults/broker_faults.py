"""The broker, or a node of its cluster, goes away, loses a queue, runs out of room or patience."""

import time

from pika.adapters.blocking_connection import BlockingChannel

from cronhare.domain.execution import State
from cronhare.domain.topology import MAIN_QUEUE
from tests.faults.house import PATIENCE, House, stop_politely
from tests.faults.jobs import LATE
from tests.faults.occupying import holding, occupy, recover
from tests.faults.saying import hearing
from tests.integration.amqp import channel
from tests.services.finding import wait_until
from tests.services.rabbitmq import alarm, impatience
from tests.services.rabbitmq_cluster import Cluster

BUSY, BACKLOG, BESIDE = 150, 50, 60

#: Seconds that a consumer may keep a message, and that a task takes which is longer.
TOO_LONG, LONGER = 1.0, 2.5


def killed(house: House) -> None:
    """Kill the broker with retries under way, and start it again after a while."""
    house.load()
    with hearing(house.arena.logs, "broker.lost"):
        house.servers.rabbitmq.kill()
        try:
            time.sleep(house.die.uniform(0, 2))
        finally:
            house.servers.rabbitmq.start()
    recover(house)


def restarted(house: House) -> None:
    house.load()
    with hearing(house.arena.logs, "broker.lost"):
        house.servers.rabbitmq.stop()
        house.servers.rabbitmq.start()
    recover(house)


def queue_deleted(house: House) -> None:
    """Delete the task queue under its consumers, with a busy minute in it."""
    house.load()
    house.arena.make_due(BUSY)
    with (
        hearing(house.arena.logs, "broker.lost"),
        channel(house.arena.settings["CRON_BROKER_URL"]) as plain,
    ):
        wait_until(lambda: depth(plain) > BACKLOG, seconds=PATIENCE, what="a backlog")
        deleted = plain.queue_delete(MAIN_QUEUE).method.message_count
    assert deleted, "the queue was empty when it was deleted"
    recover(house)


def depth(plain: BlockingChannel) -> int:
    return int(plain.queue_declare(MAIN_QUEUE, passive=True).method.message_count)


def alarmed(house: House) -> None:
    """Let a busy minute come while the broker's memory is full, for a shorter or longer while."""
    house.load()
    with alarm(house.servers.rabbitmq):
        names = house.arena.make_due(BUSY)
        time.sleep(house.die.uniform(1, 8))  # a publisher gives up after 5
        rows = [row for row in house.arena.executions() if row.schedule_name in names]
        waiting = sum(row.state is State.CLAIMED for row in rows)
    assert waiting > BUSY / 2, f"the alarm held back only {waiting} of {len(rows)} executions"
    recover(house)


def impatient(house: House) -> None:
    """Have tasks take longer than the broker lets a consumer keep a message."""
    with impatience(house.servers.rabbitmq, seconds=TOO_LONG), holding(house, LATE):
        begin_anew(house)
        with hearing(house.arena.logs, "broker.lost"), hearing(house.arena.logs, "attempt.fenced"):
            [running] = occupy(house, house.workers[0], LATE)
            time.sleep(LONGER)
    house.settle()
    again = [row for row in house.arena.executions() if row.id in running and row.attempt > 1]
    assert not again, f"{len(again)} tasks ran again because they took long"
    begin_anew(house)
    house.recover()


def begin_anew(house: House) -> None:
    """Replace the workers: the broker's patience is that of the moment when a channel is opened."""
    stop_politely(house.workers)
    house.fill_up()


def node_killed(house: House) -> None:
    """Kill each node in turn with retries under way, let work come, and start the node again."""
    cluster = house.servers.rabbitmq
    assert isinstance(cluster, Cluster)
    with hearing(house.arena.logs, "broker.lost"):  # somebody was on one of them
        for node in house.die.sample(cluster.nodes, len(cluster.nodes)):
            house.load()
            node.kill()
            try:
                house.arena.make_due(BESIDE)
                time.sleep(house.die.uniform(0, 3))
                house.recover()  # on the nodes that are left
            finally:
                node.start()
    recover(house)


SCENARIOS = {
    "broker-killed": killed,
    "broker-restarted": restarted,
    "queue-deleted": queue_deleted,
    "memory-alarm": alarmed,
    "task-outlasts-consumer-timeout": impatient,
}

#: These need a house on a cluster.
ON_CLUSTER = {"broker-node-killed": node_killed}
