"""Which of several servers a session goes to: by chance, to one that takes writes."""

import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pymysql
from pymysql.constants import CR, ER

from cronhare.application.logs import say
from cronhare.domain.addresses import Host

from .mysql_errors import number_of

log = logging.getLogger(__name__)

Session = pymysql.Connection

_READ_ONLY: Final = ("read_only", "super_read_only", "innodb_read_only")
_VARIABLES: Final = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN "
    "('wsrep_on', 'read_only', 'super_read_only', 'innodb_read_only')"
)
_CLUSTER: Final = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_cluster_status')"
)


class Nodes:
    """The servers of one database. Of several, one that only reads is passed over, and told."""

    def __init__(self, hosts: Sequence[Host], open_: Callable[[Host], "Session[Any]"]) -> None:
        """*open_* opens a session with one host."""
        self._hosts = hosts
        self._open = open_
        self._passed_over = dict[Host, str]()

    def connect(self) -> "Session[Any]":
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

    def _writable(self, host: Host) -> "Session[Any]":
        session = self._open(host)
        try:
            why = why_not(session)
        except BaseException:
            session.close()
            raise
        if why is not None:
            session.close()
            raise pymysql.OperationalError(ER.OPTION_PREVENTS_STATEMENT, why)
        return session

    def _note(self, host: Host, why: str) -> None:
        """Tell when a host begins to be passed over, and when that is over."""
        before = self._passed_over.get(host, "")
        self._passed_over[host] = why
        if why and not before:
            text = f"Database host {host} is passed over: {why}"
            say(log, logging.WARNING, "database.passed-over", text)
        elif before and not why:
            say(log, logging.INFO, "database.back", f"Database host {host} is used again")


def why_not(session: "Session[Any]") -> str | None:
    """Say why nothing can be written there; None if it can."""
    said = _asked(session, _VARIABLES)
    for name in _READ_ONLY:
        if said.get(name, "OFF") not in {"OFF", "0"}:
            return f"it only reads ({name} is {said[name]})"
    if said.get("wsrep_on") != "ON":
        return None
    cluster = _asked(session, _CLUSTER)
    if (status := cluster.get("wsrep_cluster_status", "")) != "Primary":
        return f"it has lost the majority of its cluster (wsrep_cluster_status is {status})"
    if cluster.get("wsrep_ready") != "ON":
        return "it is not ready yet (wsrep_ready is OFF)"
    return None


def _asked(session: "Session[Any]", question: str) -> dict[str, str]:
    with session.cursor() as cursor:
        cursor.execute(question)
        return {str(name).lower(): str(value) for name, value in cursor.fetchall()}


def _no_host(refusals: dict[Host, pymysql.MySQLError]) -> pymysql.MySQLError:
    """Sum up. Its number is that of a host that answered, if one did."""
    numbers = sorted(
        map(number_of, refusals.values()), key=lambda each: each == CR.CR_CONN_HOST_ERROR
    )
    told = "; ".join(f"{host}: {_text(error)}" for host, error in sorted(refusals.items()))
    return pymysql.OperationalError(numbers[0], f"none of the hosts can be used: {told}")


def _text(error: pymysql.MySQLError) -> str:
    return str(error.args[1]) if len(error.args) > 1 else str(error)
