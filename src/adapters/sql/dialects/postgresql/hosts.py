"""Which of several servers of PostgreSQL a session goes to: to the one that is no standby."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import psycopg

from cronhare.domain.addresses import Host

from ..hosts import Hosts, HostStatus
from . import errors
from .session import Session

_STANDING: Final = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')"


class PostgresqlHosts(Hosts[Session]):
    """The servers of one database."""

    error = psycopg.Error
    cure = "Stop the one that is not the primary, or make a standby of it (pg_rewind)"

    def status_of(self, session: Session) -> HostStatus:
        """See `Hosts.status_of`. Of servers that replicate one takes writes."""
        row = session.execute(_STANDING).fetchone()
        if row is None or row[0]:
            return HostStatus(why_not="it is a standby (in recovery), and only reads", cluster=None)
        if row[1] != "off":
            return HostStatus(why_not="it only reads (transaction_read_only is on)", cluster=None)
        return HostStatus(why_not=None, cluster=None)

    @contextmanager
    def mark(self, session: Session) -> Iterator[str]:
        """See `Hosts.mark`. Advisory locks have numbers."""
        mark = str(secrets.randbelow(2**63))
        session.execute("SELECT pg_advisory_lock(%s::bigint)", (mark,))
        yield mark
        session.execute("SELECT pg_advisory_unlock(%s::bigint)", (mark,))

    def has_mark(self, session: Session, mark: str) -> bool:
        """See `Hosts.has_mark`. A lock that can be had is free; it ends with the session."""
        row = session.execute("SELECT pg_try_advisory_lock(%s::bigint)", (mark,)).fetchone()
        return row is not None and not row[0]

    def refusal(self, why: str) -> Exception:
        return psycopg.errors.ReadOnlySqlTransaction(why)

    def all_failed(self, refusals: Mapping[Host, Exception], text: str) -> Exception:
        answered = [each for each in refusals.values() if not errors.is_absent(each)]
        kind = type(answered[0]) if answered else psycopg.OperationalError
        return kind(text)

    def message_of(self, error: Exception) -> str:
        return errors.said_by(error)
