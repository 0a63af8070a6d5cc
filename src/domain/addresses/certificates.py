"""PEM files by which a server is verified, and by which it verifies us."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final
from urllib.parse import quote

import attrs

#: What the URLs call a CA, our certificate and its key.
OF_BROKER: Final = ("cafile", "certfile", "keyfile")
OF_LEDGER: Final = ("ssl_ca", "ssl_cert", "ssl_key")


def certificates_beside(url: str, folder: PurePath) -> str:
    """Let the relative paths of a URL's certificates begin at *folder*. All else stays as it is.

    >>> certificates_beside("amqps://rabbit/?cafile=ca.pem&heartbeat=10", PurePath("/etc/cronhare"))
    'amqps://rabbit/?cafile=/etc/cronhare/ca.pem&heartbeat=10'
    >>> certificates_beside("mysql://db/cron?ssl_ca=/etc/ssl/ca.pem", PurePath("/etc/cronhare"))
    'mysql://db/cron?ssl_ca=/etc/ssl/ca.pem'
    """
    before, mark, query = url.partition("?")
    return f"{before}{mark}{'&'.join(_beside(pair, folder) for pair in query.split('&'))}"


def _beside(pair: str, folder: PurePath) -> str:
    name, equals, path = pair.partition("=")
    is_relative = path and not path.upper().startswith(("/", "%2F"))
    if name in OF_BROKER + OF_LEDGER and is_relative:
        return f"{name}{equals}{quote(f'{folder}/')}{path}"
    return pair


@attrs.frozen(kw_only=True)
class Certificates:
    """The paths that a URL names: of a CA, of our certificate, and of its key.

    *options* are the URL's own names of the three, as errors name them.
    """

    options: tuple[str, str, str]
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @classmethod
    def of(cls, said: Mapping[str, str], options: tuple[str, str, str]) -> "Certificates":
        """Take from a URL's options those that name certificates.

        Raises:
            ValueError: a certificate without its key, or a key alone.
        """
        ca, certificate, key = map(said.get, options)
        if (certificate is None) != (key is None):
            _, one, other = options
            raise ValueError(
                f"{one} and {other} are given together, or neither; one file may have both"
            )
        return cls(options=options, ca=ca, certificate=certificate, key=key)

    def refuse(self, where: str) -> None:
        """Refuse certificates where nothing is verified.

        Raises:
            ValueError: some are named.
        """
        if self.named:
            *some, last = self.options
            raise ValueError(
                f"{where} has no use for {', '.join(some)} or {last}: take one of them away"
            )

    @property
    def named(self) -> bool:
        """Whether there is any."""
        return self.ca is not None or self.certificate is not None
