"""The broker's address, in the form that each client takes."""

import random
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, urlencode

import attrs
from pika import ConnectionParameters, PlainCredentials, SSLOptions

from cronhare.adapters import tls
from cronhare.domain.addresses import BrokerServer, Host

#: Seconds in which a connection to a node must have been made.
CONNECT_TIMEOUT: Final = 5.0


@attrs.frozen(kw_only=True)
class Address(BrokerServer):
    """A broker's URL as each client takes it. Printed, it shows no password."""

    def nodes(self, shuffle: Callable[[list[Host]], None] = random.shuffle) -> list[Host]:
        """Give the nodes in the order in which they are to be tried now.

        It is random, so that the clients of a lost node spread over the others.
        """
        nodes = list(self.url.hosts)
        shuffle(nodes)
        return nodes

    def for_pika(
        self, node: Host, *, name: str, blocked_timeout: float | None = None
    ) -> ConnectionParameters:
        """Give pika's parameters. *name* is shown by the broker's tools; times are in seconds."""
        context = self.context()
        return ConnectionParameters(
            host=node.name,
            port=node.port,
            virtual_host=self.vhost,
            credentials=PlainCredentials(self._user, self._password),
            heartbeat=self.heartbeat,
            blocked_connection_timeout=blocked_timeout,
            socket_timeout=CONNECT_TIMEOUT,
            stack_timeout=2 * CONNECT_TIMEOUT,
            ssl_options=None if context is None else SSLOptions(context, node.name),
            client_properties={"connection_name": name},
        )

    def for_aio_pika(self, node: Host) -> str:
        """Give the URL for aio-pika, which takes the `context` beside it."""
        who = f"{quote(self._user, safe='')}:{quote(self._password, safe='')}"
        query = urlencode({"heartbeat": self.heartbeat})
        vhost = quote(self.vhost, safe="")
        return f"{self.url.scheme}://{who}@{node}/{vhost}?{query}"

    def context(self) -> ssl.SSLContext | None:
        """Make the TLS context that verifies the broker; None without TLS.

        Raises:
            CertificatesUnusable: a certificate file cannot be read, or is none.
        """
        return tls.client_context(self.certificates) if self.url.scheme == "amqps" else None

    @property
    def _user(self) -> str:
        return self.url.user or "guest"

    @property
    def _password(self) -> str:
        return self.url.password or "guest"
