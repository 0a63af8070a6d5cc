"""Which of several servers a session goes to, by what they say of themselves."""

from collections.abc import Mapping
from typing import Any

import attrs
import pymysql
import pytest

from cronhare.adapters.sql.dialects.mysql.hosts import MysqlHosts
from cronhare.domain.addresses import Host

A, B = Host("a", 3306), Host("b", 3306)

GALERA = {"wsrep_on": "ON", "wsrep_cluster_status": "Primary", "wsrep_ready": "ON"}
GROUP = {"group_replication_group_name": "g"}
DENIED = pymysql.OperationalError(1142, "SELECT command denied")
LOST = pymysql.OperationalError(2013, "Lost connection to server during query")


@attrs.define
class Server:
    """A server: what it says, and the named locks that its sessions hold."""

    said: Mapping[str, str] = attrs.field(factory=dict)
    state: str | pymysql.MySQLError = "OFFLINE"
    dies: bool = False
    locks: set[str] = attrs.field(factory=set)


@attrs.define
class Link:
    """A session with a server that is being set up."""

    server: Server

    def close(self) -> None: ...

    def ask(self, question: str, *values: str) -> Mapping[str, str]:
        if self.server.dies:
            raise LOST
        if "IS_FREE_LOCK" in question:
            return {"free": str(int(values[0] not in self.server.locks))}
        if "GET_LOCK" in question:
            self.server.locks.add(*values)
            return {}
        if "RELEASE_LOCK" in question:
            self.server.locks.remove(*values)
            return {}
        if "MEMBER_STATE" in question:
            if isinstance(self.server.state, pymysql.MySQLError):
                raise self.server.state
            return {"state": self.server.state}
        return self.server.said


def met(servers: Mapping[Host, Server]) -> set[Host]:
    """Connect again and again, each time as if for the first, and tell which hosts were used."""
    used = set[Host]()
    for _ in range(20):
        hosts: MysqlHosts = MysqlHosts(lambda host: Link(servers[host]), tuple(servers))  # type: ignore[arg-type,return-value]
        session: Any = hosts.connect()
        used |= {host for host, server in servers.items() if server is session.server}
    return used


def test_a_healthy_primary_is_used_beside_a_host_that_greets_and_dies() -> None:
    assert met({A: Server(), B: Server(dies=True)}) == {A}


def test_two_names_of_one_server_are_no_rivals() -> None:
    server = Server()

    assert met({A: server, B: server}) == {A, B}
    assert server.locks == set()


def test_two_servers_that_are_called_alike_are_two() -> None:
    alike = {"hostname": "db", "port": "3306", "server_id": "1"}

    with pytest.raises(pymysql.OperationalError, match="b:3306 takes writes as well"):
        met({A: Server(alike), B: Server(alike)})


def test_nodes_of_one_galera_cluster_are_used() -> None:
    said = {**GALERA, "wsrep_cluster_state_uuid": "u"}

    assert met({A: Server(said), B: Server(said)}) == {A, B}


@pytest.mark.parametrize("other", [{**GALERA, "wsrep_cluster_state_uuid": "v"}, {}])
def test_a_galera_cluster_beside_another_or_a_lone_server_is_not(other: Mapping[str, str]) -> None:
    said = {**GALERA, "wsrep_cluster_state_uuid": "u"}

    with pytest.raises(pymysql.OperationalError, match="takes writes as well"):
        met({A: Server(said), B: Server(other)})


def test_members_of_a_group_that_runs_are_used() -> None:
    assert met({A: Server(GROUP, "ONLINE"), B: Server(GROUP, "ONLINE")}) == {A, B}


@pytest.mark.parametrize("state", ["OFFLINE", DENIED])
def test_servers_of_a_group_that_is_not_seen_to_run_are_not(
    state: str | pymysql.MySQLError,
) -> None:
    with pytest.raises(pymysql.OperationalError, match="takes writes as well"):
        met({A: Server(GROUP, state), B: Server(GROUP, state)})
