"""Where the broker is, on one node or on several, read once and told to both clients alike."""

import random
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, urlencode

import attrs
from pika import ConnectionParameters, PlainCredentials, SSLOptions

from cronhare.adapters import tls
from cronhare.domain.addresses import OF_BROKER, Certificates, Host, ServerUrl

#: Seconds. The peer is taken for dead after two to three of them without a sign.
HEARTBEAT: Final = 10

#: Seconds. A longer one would find a dead peer later than the operating system does.
LONGEST_HEARTBEAT: Final = 3_600

#: Seconds in which a connection to a node must have been made.
CONNECT_TIMEOUT: Final = 5.0

#: Bytes: AMQP writes the name of a vhost as a short string.
LONGEST_VHOST: Final = 255

EXAMPLE: Final = "amqp://user:password@host,host:5673/vhost"

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_OPTIONS: Final = ("heartbeat", *OF_BROKER)


@attrs.frozen(kw_only=True)
class Address:
    """A broker's URL, taken apart. Printed, it shows no password.

    With several hosts they are nodes of one cluster: any of them serves.
    """

    url: ServerUrl
    certificates: Certificates
    heartbeat: int = HEARTBEAT

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Read `amqp://user:password@host,host:5673/vhost?heartbeat=10`, or the same with `amqps`.

        `cafile`, `certfile` and `keyfile` name PEM files. A missing vhost is `/`. Certificate and
        host name are always verified.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        try:
            read = ServerUrl.parse(url, ports=_PORTS, options=_OPTIONS, example=EXAMPLE)
            heartbeat = _seconds(read.options.get("heartbeat", str(HEARTBEAT)))
            certificates = Certificates.of(read.options, OF_BROKER)
            if read.scheme != "amqps":
                certificates.refuse("amqp:// (amqps:// is TLS)")
            return cls(url=_checked(read), certificates=certificates, heartbeat=heartbeat)
        except ValueError as error:
            raise ValueError(f"the broker URL {error}") from None  # its cause may quote it

    @property
    def vhost(self) -> str:
        """The vhost; `/` where the URL names none."""
        return self.url.place or "/"

    def nodes(self, shuffle: Callable[[list[Host]], None] = random.shuffle) -> list[Host]:
        """Give the nodes in the order in which they are to be tried now.

        It is another one each time, so that what loses a node spreads over the others.
        """
        nodes = list(self.url.hosts)
        shuffle(nodes)
        return nodes

    def __str__(self) -> str:
        return str(self.url)

    def for_pika(
        self,
        node: Host,
        *,
        name: str,
        heartbeat: int | None = None,
        blocked_timeout: float | None = None,
    ) -> ConnectionParameters:
        """Tell pika. *name* is shown by the broker's tools; times are in seconds."""
        context = self.context()
        return ConnectionParameters(
            host=node.name,
            port=node.port,
            virtual_host=self.vhost,
            credentials=PlainCredentials(self._user, self._password),
            heartbeat=self.heartbeat if heartbeat is None else heartbeat,
            blocked_connection_timeout=blocked_timeout,
            socket_timeout=CONNECT_TIMEOUT,
            stack_timeout=2 * CONNECT_TIMEOUT,
            ssl_options=None if context is None else SSLOptions(context, node.name),
            client_properties={"connection_name": name},
        )

    def for_aio_pika(self, node: Host) -> str:
        """Tell aio-pika, which also wants the `context`."""
        who = f"{quote(self._user, safe='')}:{quote(self._password, safe='')}"
        query = urlencode({"heartbeat": self.heartbeat})
        vhost = quote(self.vhost, safe="")
        return f"{self.url.scheme}://{who}@{node}/{vhost}?{query}"

    def context(self) -> ssl.SSLContext | None:
        """Make what verifies the broker; None without TLS.

        Raises:
            CertificatesUnusable: a certificate file cannot be read, or is none.
        """
        return tls.verifying(self.certificates) if self.url.scheme == "amqps" else None

    @property
    def _user(self) -> str:
        return self.url.user or "guest"

    @property
    def _password(self) -> str:
        return self.url.password or "guest"


def _checked(url: ServerUrl) -> ServerUrl:
    if len((url.place or "").encode()) > LONGEST_VHOST:
        raise ValueError(f"names a vhost of more than {LONGEST_VHOST} bytes")
    return url


def _seconds(text: str) -> int:
    digits = text if text.isascii() and text.isdigit() and len(text) <= len("3600") else ""
    if not digits or int(digits) > LONGEST_HEARTBEAT:
        raise ValueError(f"has a heartbeat that is no number of seconds up to {LONGEST_HEARTBEAT}")
    return int(digits)
