"""Sessions with a database on servers: which host they go to, and the pool that keeps them."""

import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from sqlalchemy import Engine, ExceptionContext, NullPool, QueuePool, event

from cronhare.application.logs import say
from cronhare.domain.addresses import Host, LedgerServer

from ..dialect import Errors, Meaning

log = logging.getLogger(__name__)

S = TypeVar("S")

#: A server may take so long for an answer. A worker whose lease could not be renewed for two
#: thirds of its 30 s ends its tasks: a silent server has to be noticed well before.
ANSWER_SECONDS: Final = 10
CONNECT_SECONDS: Final = 5

#: With several hosts a silent one is passed over sooner: the others wait to be asked.
ONE_OF_SEVERAL_SECONDS: Final = 2

#: A statement waits so long for rows that others hold; MySQL knows no shorter wait. Then a batch
#: goes on in halves, so each level of them costs as much.
LOCK_SECONDS: Final = 1

#: The server ends a session of MySQL's, or a transaction of PostgreSQL's, that is silent for so
#: long: what a host held when it vanished is free again. By default it never is, or after eight
#: hours. A worker at rest asks for the time every 30 s.
IDLE_SECONDS: Final = 45


class ServerErrors(Errors, Protocol):
    """What the errors of one kind of server mean."""

    def meaning_of(self, error: BaseException | None) -> Meaning:
        """See `Errors.meaning_of`; also of the driver's own errors."""
        ...

    def is_lost(self, error: BaseException | None) -> bool:
        """Whether the connection is of no use any more."""

    def said_by(self, error: BaseException | None) -> str:
        """Give the server's or the driver's own words, without the user."""
        ...

    def none_usable(self, errors: Sequence[Exception], text: str) -> Exception:
        """Make the driver's error of several hosts, of the kind of one that answered."""
        ...


class Sessions(ABC, Generic[S]):
    """Opens sessions with one of the hosts of a database, and makes engines that keep them."""

    errors: ServerErrors

    def __init__(self, server: LedgerServer) -> None:
        """Connects to nothing yet."""
        self.server = server
        self._passed_over = set[Host]()

    @abstractmethod
    def open(self, host: Host, answer_seconds: int | None) -> S:
        """Open a session with one host, whose answers may take *answer_seconds* each.

        Raises:
            Exception: it is away or refuses us; or, of several hosts, it only reads.
        """

    @abstractmethod
    def make_engine(self, **options: Any) -> Engine:  # noqa: ANN401 - SQLAlchemy's own
        """Make an engine. Its URL names the kind of database alone: it can give away no secret."""

    @property
    def has_other_hosts(self) -> bool:
        """Whether what one host refuses may be possible on another."""
        return len(self.server.hosts) > 1

    @property
    def connect_seconds(self) -> int:
        """How long one host may take."""
        return ONE_OF_SEVERAL_SECONDS if self.has_other_hosts else CONNECT_SECONDS

    def pooled_engine(self) -> Engine:
        """Make an engine that keeps its sessions. The last that was given back is lent first.

        So one stays awake. What is lent is not tested: a session that was lost is found out by
        its first statement, thrown away with all that are older, and the call repeated.
        """
        return self._engine(
            ANSWER_SECONDS, poolclass=QueuePool, pool_timeout=ANSWER_SECONDS, pool_use_lifo=True
        )

    def unbounded_engine(self) -> Engine:
        """Make an engine without a bound for answers, whose sessions end with their use."""
        return self._engine(None, poolclass=NullPool)

    def _engine(self, answer_seconds: int | None, **pooling: Any) -> Engine:  # noqa: ANN401
        """Make an engine. Nothing is reset on return: our transactions end before."""
        engine = self.make_engine(
            creator=partial(self._connect, answer_seconds),
            pool_reset_on_return=None,
            hide_parameters=True,
            **pooling,
        )
        event.listen(engine, "handle_error", self._note_loss)
        return engine

    def _connect(self, answer_seconds: int | None) -> S:
        """Open a session with the only host, or with any that takes writes, tried at random."""
        hosts = self.server.hosts
        if len(hosts) == 1:
            return self.open(hosts[0], answer_seconds)
        refusals = dict[Host, Exception]()
        for host in random.sample(hosts, len(hosts)):
            try:
                session = self.open(host, answer_seconds)
            except Exception as error:  # noqa: BLE001 - whatever answers there
                refusals[host] = error
                if host not in self._passed_over:
                    self._passed_over.add(host)
                    text = f"Database host {host} is passed over: {self.errors.said_by(error)}"
                    say(log, logging.WARNING, "database.passed-over", text)
            else:
                if host in self._passed_over:
                    self._passed_over.discard(host)
                    text = f"Database host {host} is used again"
                    say(log, logging.INFO, "database.back", text)
                return session
        told = "; ".join(f"{host}: {self.errors.said_by(refusals[host])}" for host in hosts)
        text = f"none of the hosts can be used: {told}"
        raise self.errors.none_usable([*refusals.values()], text)

    def _note_loss(self, context: ExceptionContext) -> None:
        """Let the pool throw away what SQLAlchemy does not know to be lost."""
        error = context.original_exception
        is_read_only = self.errors.meaning_of(error) is Meaning.READ_ONLY
        if self.errors.is_lost(error) or (is_read_only and self.has_other_hosts):
            context.is_disconnect = True
