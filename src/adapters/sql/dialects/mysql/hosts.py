"""Which of several servers of MySQL or MariaDB a session goes to."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pymysql
from pymysql.constants import CR, ER

from cronhare.domain.addresses import Host

from ..hosts import Hosts, HostStatus
from .bounded_session import BoundedSession
from .errors import number_of

_READ_ONLY: Final = ("read_only", "super_read_only", "innodb_read_only")
_VARIABLES: Final = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN "
    "('wsrep_on', 'read_only', 'super_read_only', 'innodb_read_only', "
    "'group_replication_group_name')"
)
_GALERA: Final = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN "
    "('wsrep_ready', 'wsrep_cluster_status', 'wsrep_cluster_state_uuid')"
)
#: A server whose configuration names a group need not be in it.
_GROUP: Final = (
    "SELECT 'state', MEMBER_STATE FROM performance_schema.replication_group_members "
    "WHERE MEMBER_ID = @@server_uuid"
)


class MysqlHosts(Hosts[BoundedSession]):
    """The servers of one database."""

    error = pymysql.MySQLError
    cure = "Set read_only on the one that is not the primary"

    def status_of(self, session: BoundedSession) -> HostStatus:
        said = session.ask(_VARIABLES)
        for name in _READ_ONLY:
            if said.get(name, "OFF") not in {"OFF", "0"}:
                return HostStatus(why_not=f"it only reads ({name} is {said[name]})", cluster=None)
        if said.get("wsrep_on") == "ON":
            galera = session.ask(_GALERA)
            cluster = galera.get("wsrep_cluster_state_uuid")
            return HostStatus(why_not=_why_not(galera), cluster=cluster)
        group = said.get("group_replication_group_name")
        return HostStatus(why_not=None, cluster=group if group and _is_online(session) else None)

    @contextmanager
    def mark(self, session: BoundedSession) -> Iterator[str]:
        mark = f"cronhare {uuid.uuid4().hex}"
        session.ask("SELECT 'taken', GET_LOCK(%s, 0)", mark)
        yield mark
        session.ask("SELECT 'released', RELEASE_LOCK(%s)", mark)

    def has_mark(self, session: BoundedSession, mark: str) -> bool:
        return session.ask("SELECT 'free', IS_FREE_LOCK(%s)", mark).get("free") != "1"

    def refusal(self, why: str) -> Exception:
        return pymysql.OperationalError(ER.OPTION_PREVENTS_STATEMENT, why)

    def all_failed(self, refusals: Mapping[Host, Exception], text: str) -> Exception:
        numbers = sorted(
            map(number_of, refusals.values()), key=lambda each: each == CR.CR_CONN_HOST_ERROR
        )
        return pymysql.OperationalError(numbers[0], text)

    def message_of(self, error: Exception) -> str:
        return str(error.args[1]) if len(error.args) > 1 else str(error)


def _why_not(galera: Mapping[str, str]) -> str | None:
    if (status := galera.get("wsrep_cluster_status", "")) != "Primary":
        return f"it has lost the majority of its cluster (wsrep_cluster_status is {status})"
    if galera.get("wsrep_ready") != "ON":
        return "it is not ready yet (wsrep_ready is OFF)"
    return None


def _is_online(session: BoundedSession) -> bool:
    """Tell whether a server works in its group. Who may not ask does not know it."""
    try:
        return session.ask(_GROUP).get("state") == "ONLINE"
    except pymysql.MySQLError as error:
        if number_of(error) == ER.TABLEACCESS_DENIED_ERROR:
            return False
        raise
