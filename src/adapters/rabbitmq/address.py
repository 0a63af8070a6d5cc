"""Where the broker is, read once and told to both clients alike."""

import ssl
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import attrs
from pika import ConnectionParameters, PlainCredentials, SSLOptions

#: Seconds. The peer is taken for dead after two to three of them without a sign.
HEARTBEAT = 10

#: Seconds in which a connection must have been made.
CONNECT_TIMEOUT = 5.0

_PORTS = {"amqp": 5672, "amqps": 5671}
_OPTIONS = ("heartbeat", "cafile", "certfile", "keyfile")


@attrs.frozen(kw_only=True)
class Address:
    """A broker's URL, taken apart. Printed, it shows no password."""

    host: str
    port: int
    user: str
    password: str = attrs.field(repr=False)
    vhost: str
    tls: bool
    heartbeat: int = HEARTBEAT
    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Read `amqp://user:password@host:port/vhost?heartbeat=10`, or the same with `amqps`.

        `cafile`, `certfile` and `keyfile` name PEM files. A missing vhost is `/`. Certificate and
        host name are always verified.

        Raises:
            ValueError: it cannot be used; the text shows no password.
        """
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError("a broker URL looks like amqp://user:password@host:5672/vhost")
        options = dict(parse_qsl(parts.query))
        if unknown := sorted(options.keys() - set(_OPTIONS)):
            known = ", ".join(_OPTIONS)
            raise ValueError(f"broker URL: unknown option {', '.join(unknown)}; there are {known}")
        return cls(
            host=parts.hostname,
            port=parts.port or _PORTS[parts.scheme],
            user=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
            vhost=unquote(parts.path[1:]) or "/",
            tls=parts.scheme == "amqps",
            heartbeat=_seconds(options.pop("heartbeat", str(HEARTBEAT))),
            **options,
        )

    def __str__(self) -> str:
        scheme = "amqps" if self.tls else "amqp"
        return f"{scheme}://{_host(self.host)}:{self.port}/{quote(self.vhost, safe='')}"

    def for_pika(
        self, *, name: str, heartbeat: int | None = None, blocked_timeout: float | None = None
    ) -> ConnectionParameters:
        """Tell pika. *name* is shown by the broker's tools; times are in seconds."""
        context = self.context()
        return ConnectionParameters(
            host=self.host,
            port=self.port,
            virtual_host=self.vhost,
            credentials=PlainCredentials(self.user, self.password),
            heartbeat=self.heartbeat if heartbeat is None else heartbeat,
            blocked_connection_timeout=blocked_timeout,
            socket_timeout=CONNECT_TIMEOUT,
            stack_timeout=2 * CONNECT_TIMEOUT,
            ssl_options=None if context is None else SSLOptions(context, self.host),
            client_properties={"connection_name": name},
        )

    def for_aiormq(self) -> str:
        """Tell aiormq, which also wants the `context`."""
        scheme = "amqps" if self.tls else "amqp"
        who = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        query = urlencode({"heartbeat": self.heartbeat})
        vhost = quote(self.vhost, safe="")
        return f"{scheme}://{who}@{_host(self.host)}:{self.port}/{vhost}?{query}"

    def context(self) -> ssl.SSLContext | None:
        """Make what verifies the broker; None without TLS.

        Raises:
            OSError: a certificate file cannot be read, or is none.
        """
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.cafile)
        if self.certfile is not None:
            context.load_cert_chain(self.certfile, self.keyfile)
        return context


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _seconds(text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"broker URL: heartbeat={text} is no number of seconds")
    return int(text)
