"""RabbitMQ's address, pika's blocking connections, and what errors mean for people."""

import logging
import random
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import attrs
from pika import BlockingConnection, ConnectionParameters, PlainCredentials, SSLOptions
from pika.adapters.utils.connection_workflow import (
    AMQPConnectionWorkflowFailed,
    AMQPConnectorException,
)
from pika.exceptions import AMQPConnectionError, AMQPError

from cronhare.adapters import tls
from cronhare.adapters.addresses import BrokerServer
from cronhare.application.doctor.servers import BROKER, cure_of
from cronhare.application.outages import Outage
from cronhare.domain.addresses import Host
from cronhare.domain.nodes import FAREWELL
from cronhare.domain.retries.policy import Waits
from cronhare.ports.inspection import Cause

#: Seconds in which a connection to a node must have been made.
CONNECT_TIMEOUT: Final = 5.0

#: Seconds within which the broker must answer a method.
ANSWER_TIMEOUT: Final = 10.0

#: Seconds: the first wait before connecting again, and the longest.
FIRST_WAIT, LONGEST_WAIT = 0.25, 30.0

#: A broker that accepts a connection and then says nothing is an error that is no AMQPError.
PIKA_ERRORS = (AMQPError, AMQPConnectorException, OSError)

#: What else there is to know, or to type, of why a broker cannot be used.
HINTS: Final = {
    Cause.LOGIN: "RabbitMQ lets `guest` in from its own host only",
    Cause.PLACE: "`rabbitmqctl add_vhost NAME`, "
    "`rabbitmqctl set_permissions --vhost NAME USER '.*' '.*' '.*'`",
}

T = TypeVar("T")

_USER: Final = re.compile(r"user \\?'[^']*'")

#: What the broker says, as pika quotes it.
_QUOTED: Final = re.compile(r"""ConnectionClosedByBroker: \(\d+\) (['"])(.*)\1""")


@attrs.frozen(kw_only=True)
class Address(BrokerServer):
    """A broker's URL as each client takes it. Printed, it shows no password."""

    def nodes(self) -> list[Host]:
        """Give the nodes in a random order: the clients of a lost one spread over the others."""
        return random.sample(self.url.hosts, len(self.url.hosts))

    def first(self, use: Callable[[Host], T]) -> T:
        """Use the first node that answers; raises what pika says of the last one."""
        *others, last = self.nodes()
        for node in others:
            with suppress(*PIKA_ERRORS):
                return use(node)
        return use(last)

    def for_pika(
        self, node: Host, *, name: str, blocked_timeout: float | None = None
    ) -> ConnectionParameters:
        """Give pika's parameters. *name* is shown by the broker's tools; times are in seconds."""
        context = self.context()
        return ConnectionParameters(
            host=node.name,
            port=node.port,
            virtual_host=self.vhost,
            credentials=PlainCredentials(*self._login),
            heartbeat=self.heartbeat,
            blocked_connection_timeout=blocked_timeout,
            socket_timeout=CONNECT_TIMEOUT,
            stack_timeout=2 * CONNECT_TIMEOUT,
            ssl_options=None if context is None else SSLOptions(context, node.name),
            client_properties={"connection_name": name},
        )

    def for_aio_pika(self, node: Host) -> str:
        """Give the URL for aio-pika, which takes the `context` beside it."""
        who = ":".join(quote(each, safe="") for each in self._login)
        query = urlencode({"heartbeat": self.heartbeat})
        return f"{self.url.scheme}://{who}@{node}/{quote(self.vhost, safe='')}?{query}"

    def context(self) -> ssl.SSLContext | None:
        """Make the TLS context that verifies the broker; None without TLS.

        Raises:
            CertificatesUnusable: a certificate file cannot be read, or is none.
        """
        return tls.client_context(self.certificates) if self.url.scheme == "amqps" else None

    @property
    def _login(self) -> tuple[str, str]:
        return self.url.user or "guest", self.url.password or "guest"


def connect(address: Address, *, name: str) -> BlockingConnection:
    """Connect to the first node that answers; raises what pika says of the last one."""
    return address.first(lambda node: BlockingConnection(address.for_pika(node, name=name)))


@contextmanager
def closing_connection(connection: BlockingConnection) -> Iterator[BlockingConnection]:
    """Close the connection at the end; a broker that does not answer is hung up on."""
    try:
        yield connection
    finally:
        if connection.is_open:
            with suppress(*PIKA_ERRORS), answering(connection, within=FAREWELL):
                connection.close()


@contextmanager
def answering(connection: BlockingConnection, *, within: float) -> Iterator[None]:
    """Hang up on a broker that has not answered after so many seconds: pika would wait for ever."""
    inner: Any = connection._impl  # noqa: SLF001 - nothing public bounds a call
    error = AMQPConnectionError(f"no answer within {within:g} s")
    hanging_up = inner.ioloop.call_later(within, lambda: inner._terminate_stream(error))  # noqa: SLF001
    try:
        yield
    finally:
        inner.ioloop.remove_timeout(hanging_up)


def backoff(random_fraction: Callable[[], float] = random.random) -> Waits[float]:
    """Give the growing waits between attempts, in seconds; *random_fraction* is in [0, 1)."""
    return Waits(FIRST_WAIT, LONGEST_WAIT, random_fraction)


@attrs.define
class LeftOut:
    """A queue that is left out for a while, ever longer, and what is logged of it."""

    outage: Outage
    retry_at: float | None = None  # None: it has not failed yet, or is tried now
    _waits: Waits[float] = attrs.field(factory=backoff)

    def fails(self, now: float, text: str, why: object) -> None:
        """Leave it out once more; *now* counts seconds."""
        self.retry_at = now + self._waits.next()
        self.outage.lasts(logging.WARNING, "queue.unavailable", text, why)


def cause_of(error: BaseException) -> Cause:
    """Classify why no connection could be made, whichever client says so."""
    inner = _innermost(error)
    match type(inner).__name__:  # aio-pika is imported where it is used: it takes 40 ms
        case "ProbableAuthenticationError":
            return Cause.LOGIN
        case "ProbableAccessDeniedError":
            return Cause.PLACE
        case "ConnectionClosed" | "CertificatesUnusable":
            return Cause.OTHER
    # TLS to a plain port, for example, is an OSError as well, and no absence.
    is_tls = "SSL" in f"{type(inner).__name__} {inner}"
    return Cause.ABSENT if isinstance(inner, OSError) and not is_tls else Cause.OTHER


def describe(error: BaseException) -> str:
    """Say what happened, without the user's name, which may be a password typed in its place."""
    inner = _innermost(error)
    said = getattr(inner, "reply_text", None) or getattr(inner, "strerror", None) or str(inner)
    if quoted := _QUOTED.search(str(said)):
        said = quoted[2]
    return _USER.sub("this user", str(said)) or type(inner).__name__


def why_unreachable(error: BaseException) -> str:
    cause, said = cause_of(error), describe(error)
    if cause is Cause.OTHER:
        return said
    return f"{cause.value} ({said}): {cure_of(BROKER, cause, HINTS.get(cause, ''))}"


def _innermost(error: BaseException) -> BaseException:
    while True:
        if isinstance(error, AMQPConnectionWorkflowFailed) and error.exceptions:
            error = error.exceptions[-1]
            continue
        inner = getattr(error, "exception", None) or (error.args[0] if error.args else None)
        if not isinstance(inner, BaseException):
            return error
        error = inner
