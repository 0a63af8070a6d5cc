"""Which of several servers a session goes to: by chance, to one that takes writes.

Two that both take writes and are not of one cluster are two ledgers: each would claim every
instant.
"""

import logging
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

import attrs
import pymysql
from pymysql.constants import CR, ER

from cronhare.application.logs import say
from cronhare.domain.addresses import Host

from .errors import number_of
from .opening import Opening

log = logging.getLogger(__name__)

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

#: So many seconds a host is known to be the only one that takes writes.
ALONE_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True)
class Standing:
    """What a server says of itself. *why_not* says why nothing can be written there.

    What is written there is on all servers of the same *cluster* as well.
    """

    why_not: str | None
    cluster: str | None


class Nodes:
    """The servers of one database. Of several, one that only reads is passed over, and told."""

    def __init__(self, hosts: Sequence[Host], open_: Callable[[Host], Opening]) -> None:
        """*open_* opens a session with one host."""
        self._hosts = hosts
        self._open = open_
        self._passed_over = dict[Host, str]()
        self._alone_until = dict[Host, float]()

    def connect(self) -> Opening:
        """Open a session with one of them.

        Raises:
            pymysql.MySQLError: none can be used. Of a single host the error is its own.
        """
        if len(self._hosts) == 1:
            return self._open(self._hosts[0])
        refusals = dict[Host, pymysql.MySQLError]()
        for host in random.sample(self._hosts, len(self._hosts)):
            try:
                session = self._writable(host)
            except pymysql.MySQLError as error:
                refusals[host] = error
                self._note(host, _text(error))
            else:
                self._note(host, "")
                return session
        raise _no_host(refusals)

    def _writable(self, host: Host) -> Opening:
        session = self._open(host)
        try:
            standing = stand(session)
            why = standing.why_not or self._rival_of(host, session, standing)
        except BaseException:
            session.close()
            raise
        if why is not None:
            session.close()
            raise pymysql.OperationalError(ER.OPTION_PREVENTS_STATEMENT, why)
        return session

    def _rival_of(self, host: Host, session: Opening, standing: Standing) -> str | None:
        """Say which other host takes writes beside this one, if they are not of one cluster."""
        if time.monotonic() < self._alone_until.get(host, 0.0):
            return None
        with nullcontext() if standing.cluster else _marked(session) as mark:
            for other in self._hosts:
                if other != host and self._takes_writes(other, beside=standing, mark=mark):
                    return (
                        f"{other} takes writes as well, and they are not of one cluster: what one "
                        "is told the other does not know. Set read_only on the one that is not "
                        "the primary"
                    )
        self._alone_until[host] = time.monotonic() + ALONE_SECONDS
        return None

    def _takes_writes(self, other: Host, *, beside: Standing, mark: str | None) -> bool:
        """Tell whether *other* takes writes that the server with the *mark* does not get."""
        try:
            session = self._open(other)
        except pymysql.MySQLError:  # away
            return False
        try:
            found = stand(session)
            if found.why_not is not None:
                return False
            if mark is None or found.cluster is not None:
                return found.cluster != beside.cluster
            return not _has(session, mark)
        except pymysql.MySQLError:  # it greets, and answers nothing: as good as away
            return False
        finally:
            session.close()

    def _note(self, host: Host, why: str) -> None:
        """Tell when a host begins to be passed over, and when that is over."""
        before = self._passed_over.get(host, "")
        self._passed_over[host] = why
        if why and not before:
            text = f"Database host {host} is passed over: {why}"
            say(log, logging.WARNING, "database.passed-over", text)
        elif before and not why:
            say(log, logging.INFO, "database.back", f"Database host {host} is used again")


def stand(session: Opening) -> Standing:
    """Ask a server what it is."""
    said = session.ask(_VARIABLES)
    for name in _READ_ONLY:
        if said.get(name, "OFF") not in {"OFF", "0"}:
            return Standing(why_not=f"it only reads ({name} is {said[name]})", cluster=None)
    if said.get("wsrep_on") == "ON":
        galera = session.ask(_GALERA)
        return Standing(why_not=_why_not(galera), cluster=galera.get("wsrep_cluster_state_uuid"))
    group = said.get("group_replication_group_name")
    return Standing(why_not=None, cluster=group if group and _is_online(session) else None)


def _why_not(galera: Mapping[str, str]) -> str | None:
    if (status := galera.get("wsrep_cluster_status", "")) != "Primary":
        return f"it has lost the majority of its cluster (wsrep_cluster_status is {status})"
    if galera.get("wsrep_ready") != "ON":
        return "it is not ready yet (wsrep_ready is OFF)"
    return None


def _is_online(session: Opening) -> bool:
    """Tell whether a server works in its group. Who may not ask does not know it."""
    try:
        return session.ask(_GROUP).get("state") == "ONLINE"
    except pymysql.MySQLError as error:
        if number_of(error) == ER.TABLEACCESS_DENIED_ERROR:
            return False
        raise


@contextmanager
def _marked(session: Opening) -> Iterator[str]:
    """Make a server known by whatever address, by a lock with a name of its own.

    Names and numbers that were configured are alike in containers that are copies.
    """
    mark = f"cronhare {uuid.uuid4().hex}"
    session.ask("SELECT 'taken', GET_LOCK(%s, 0)", mark)
    yield mark
    session.ask("SELECT 'released', RELEASE_LOCK(%s)", mark)


def _has(session: Opening, mark: str) -> bool:
    return session.ask("SELECT 'free', IS_FREE_LOCK(%s)", mark).get("free") != "1"


def _no_host(refusals: dict[Host, pymysql.MySQLError]) -> pymysql.MySQLError:
    """Sum up. Its number is that of a host that answered, if one did."""
    numbers = sorted(
        map(number_of, refusals.values()), key=lambda each: each == CR.CR_CONN_HOST_ERROR
    )
    told = "; ".join(f"{host}: {_text(error)}" for host, error in sorted(refusals.items()))
    return pymysql.OperationalError(numbers[0], f"none of the hosts can be used: {told}")


def _text(error: pymysql.MySQLError) -> str:
    return str(error.args[1]) if len(error.args) > 1 else str(error)
