"""Nodes of a Galera cluster are killed and come back, under work that never stops."""

import time

from tests.faults.house import House
from tests.services.galera import Cluster


def node_killed(house: House) -> None:
    """Kill a node with retries under way, let work come on the others, and start it again.

    Everybody knows all nodes, and writes to whichever it meets.
    """
    cluster = house.servers.database
    assert isinstance(cluster, Cluster)
    house.load()
    node = house.die.choice(cluster.nodes)
    node.kill()
    try:
        time.sleep(house.die.uniform(0, 3))
        house.recover()  # on the nodes that are left
    finally:
        node.start()
    house.recover()
    house.check_that_all_live()


#: These need a house on a cluster of databases.
SCENARIOS = {"database-node-killed": node_killed}
