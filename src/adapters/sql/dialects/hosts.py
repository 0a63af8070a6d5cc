"""Which of several servers a session goes to: one that takes writes, chosen by chance.

Two servers that both take writes and are not of one cluster are two ledgers: each would claim
every instant.
"""

import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Generic, Protocol, TypeVar

import attrs

from cronhare.application.logs import say
from cronhare.domain.addresses import Host

log = logging.getLogger(__name__)

#: For so many seconds a host counts as the only one that takes writes.
ALONE_SECONDS: Final = 10.0


class Closable(Protocol):
    """A session that is being set up."""

    def close(self) -> None:
        """End it."""


S = TypeVar("S", bound=Closable)


@attrs.frozen(kw_only=True)
class HostStatus:
    """What a server says of itself. *why_not* is the reason why nothing can be written there.

    Servers of one *cluster* share what is written.
    """

    why_not: str | None
    cluster: str | None


class Hosts(ABC, Generic[S]):
    """The servers of one database. Of several, one that only reads is passed over, and logged."""

    #: The driver's error of a server that is away, or refuses us.
    error: type[Exception]

    #: What a person should do about a second server that takes writes.
    cure: str

    def __init__(self, open_: Callable[[Host], S], hosts: Sequence[Host]) -> None:
        """*open_* opens a session with one host. Connects to nothing yet."""
        self._open = open_
        self._hosts = hosts
        self._passed_over = dict[Host, str]()
        self._alone_until = dict[Host, float]()

    @abstractmethod
    def status_of(self, session: S) -> HostStatus:
        """Ask a server what it is."""

    @abstractmethod
    def mark(self, session: S) -> AbstractContextManager[str]:
        """Hold a lock with a random name, by which a server is known at each of its addresses.

        Configured names and numbers are equal in containers that are copies.
        """

    @abstractmethod
    def has_mark(self, session: S, mark: str) -> bool:
        """Whether this is the server with the mark."""

    @abstractmethod
    def refusal(self, why: str) -> Exception:
        """Make the error of a server on which nothing can be written."""

    @abstractmethod
    def all_failed(self, refusals: Mapping[Host, Exception], text: str) -> Exception:
        """Make the error of all hosts: of the kind of one that answered, if any did."""

    @abstractmethod
    def message_of(self, error: Exception) -> str:
        """Give the sentence of an error."""

    def connect(self) -> S:
        """Open a session with one of them.

        Raises:
            Exception: none can be used; it is an `error`. Of a single host it is its own.
        """
        if len(self._hosts) == 1:
            return self._open(self._hosts[0])
        refusals = dict[Host, Exception]()
        for host in random.sample(self._hosts, len(self._hosts)):
            try:
                session = self._writable(host)
            except self.error as error:
                refusals[host] = error
                self._note(host, self.message_of(error))
            else:
                self._note(host, "")
                return session
        told = "; ".join(
            f"{host}: {self.message_of(error)}" for host, error in sorted(refusals.items())
        )
        raise self.all_failed(refusals, f"none of the hosts can be used: {told}")

    def _writable(self, host: Host) -> S:
        session = self._open(host)
        try:
            status = self.status_of(session)
            why = status.why_not or self._rival_of(host, session, status)
        except BaseException:
            session.close()
            raise
        if why is not None:
            session.close()
            raise self.refusal(why)
        return session

    def _rival_of(self, host: Host, session: S, status: HostStatus) -> str | None:
        """Name another host that takes writes, if it is not of this one's cluster."""
        if time.monotonic() < self._alone_until.get(host, 0.0):
            return None
        with nullcontext() if status.cluster else self.mark(session) as mark:
            for other in self._hosts:
                if other != host and self._takes_writes(other, beside=status, mark=mark):
                    return (
                        f"{other} takes writes as well, and they are not of one cluster: what one "
                        f"is told the other does not know. {self.cure}"
                    )
        self._alone_until[host] = time.monotonic() + ALONE_SECONDS
        return None

    def _takes_writes(self, other: Host, *, beside: HostStatus, mark: str | None) -> bool:
        """Whether *other* takes writes that the server with the *mark* does not get."""
        try:
            session = self._open(other)
        except self.error:  # away
            return False
        try:
            found = self.status_of(session)
            if found.why_not is not None:
                return False
            if mark is None or found.cluster is not None:
                return found.cluster != beside.cluster
            return not self.has_mark(session, mark)
        except self.error:  # it greets and answers nothing: it counts as away
            return False
        finally:
            session.close()

    def _note(self, host: Host, why: str) -> None:
        """Log when a host begins to be passed over, and when that is over."""
        before = self._passed_over.get(host, "")
        self._passed_over[host] = why
        if why and not before:
            text = f"Database host {host} is passed over: {why}"
            say(log, logging.WARNING, "database.passed-over", text)
        elif before and not why:
            say(log, logging.INFO, "database.back", f"Database host {host} is used again")
