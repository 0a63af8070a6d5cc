"""Nodes of the broker's cluster are killed and come back in turn, under work that never stops."""

import time

from tests.faults.house import House
from tests.faults.occupying import wait_until_all_consume
from tests.faults.saying import hearing
from tests.services.rabbitmq_cluster import Cluster

#: How many schedules are due in the minute in which a node dies.
BUSY = 60


def node_killed(house: House) -> None:
    """Kill each node in turn with retries under way, let work come, and start the node again."""
    cluster = house.servers.rabbitmq
    assert isinstance(cluster, Cluster)
    with hearing(house.arena.logs, "broker.lost"):  # somebody was on one of them
        for node in house.die.sample(cluster.nodes, len(cluster.nodes)):
            house.load()
            node.kill()
            try:
                house.arena.make_due(BUSY)
                time.sleep(house.die.uniform(0, 3))
                house.recover()  # on the nodes that are left
            finally:
                node.start()
    house.recover()
    wait_until_all_consume(house)
    house.check_that_all_live()


#: These need a house on a cluster.
SCENARIOS = {"broker-node-killed": node_killed}
