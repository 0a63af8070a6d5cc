"""The ledger, or a node of its cluster, goes away and comes back; nobody is started again."""

import time

from tests.faults.house import House
from tests.faults.occupying import recover
from tests.services.databases import end_sessions
from tests.services.galera import Cluster

KILLINGS = 8


def killed(house: House) -> None:
    """Kill the database with retries under way, and start it again after a while."""
    house.load()
    house.servers.database.kill()
    try:
        time.sleep(house.die.uniform(1, 4))
    finally:
        house.servers.database.start()
    recover(house)


def restarted(house: House) -> None:
    house.load()
    house.servers.database.stop()
    house.servers.database.start()
    recover(house)


def sessions_killed(house: House) -> None:
    """Kill every session of ours, again and again."""
    house.load()
    for _ in range(KILLINGS):
        time.sleep(house.die.uniform(0.05, 0.5))
        end_sessions(house.servers.database)
    recover(house)


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
    recover(house)


SCENARIOS = {
    "database-killed": killed,
    "database-restarted": restarted,
    "database-sessions-killed": sessions_killed,
}

#: The same, on a PostgreSQL of its own.
ON_POSTGRESQL = {
    name.replace("database", "postgresql"): scenario for name, scenario in SCENARIOS.items()
}

#: These need a house on a cluster of databases.
ON_GALERA = {"database-node-killed": node_killed}
