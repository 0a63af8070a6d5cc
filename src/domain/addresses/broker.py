"""Where the broker is: one node, or several of one cluster."""

from typing import Final, Self

import attrs

from .certificates import OF_BROKER, Certificates
from .server_url import ServerUrl

#: Seconds. The peer is taken for dead after two to three of them without a sign.
HEARTBEAT: Final = 10

#: Seconds. A longer one would find a dead peer later than the operating system does.
LONGEST_HEARTBEAT: Final = 3_600

#: Bytes: AMQP writes the name of a vhost as a short string.
LONGEST_VHOST: Final = 255

BROKER_EXAMPLE: Final = "amqp://user:password@host,host:5673/vhost"

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_OPTIONS: Final = ("heartbeat", *OF_BROKER)


@attrs.frozen(kw_only=True)
class BrokerServer:
    """A RabbitMQ. Printed, it shows no user and no password.

    With several hosts they are nodes of one cluster: any of them serves.
    """

    url: ServerUrl
    certificates: Certificates
    heartbeat: int = HEARTBEAT

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `amqp://user:password@host,host:5673/vhost?heartbeat=10`, or the same with `amqps`.

        `cafile`, `certfile` and `keyfile` name PEM files. A missing vhost is `/`. Certificate and
        host name are always verified.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        try:
            read = ServerUrl.parse(url, ports=_PORTS, options=_OPTIONS, example=BROKER_EXAMPLE)
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

    def __str__(self) -> str:
        return str(self.url)


def _checked(url: ServerUrl) -> ServerUrl:
    if len((url.place or "").encode()) > LONGEST_VHOST:
        raise ValueError(f"names a vhost of more than {LONGEST_VHOST} bytes")
    return url


def _seconds(text: str) -> int:
    digits = text if text.isascii() and text.isdigit() and len(text) <= len("3600") else ""
    if not digits or int(digits) > LONGEST_HEARTBEAT:
        raise ValueError(f"has a heartbeat that is no number of seconds up to {LONGEST_HEARTBEAT}")
    return int(digits)
