"""Where mail is handed in: an SMTP server; and what an address of mail looks like."""

import re
from typing import Final, Self

import attrs

from .server_url import ServerUrl

MAIL_EXAMPLE: Final = "smtp://user:password@host:587"

#: Characters of an address, by RFC 5321.
LONGEST_ADDRESS: Final = 254

#: Port 25 hands on between servers; 587 takes mail from programs, 465 likewise in TLS.
_PORTS: Final = {"smtp": 25, "smtps": 465}

#: What people use of RFC 5322: nothing quoted, no comment, no blank, no line end.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
#: Where the server adds its own domain, as cron's does: a user of this host.
_LOCAL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


@attrs.frozen(kw_only=True)
class MailServer:
    """An SMTP server. Printed, it shows no user and no password.

    *is_plain* says that it may be spoken to in plain text; else TLS is begun, and verified.
    """

    url: ServerUrl
    is_plain: bool

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `smtp://user:password@host:587` or `smtps://…`; `?tls=off` is plain text.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it.
        """
        try:
            read = ServerUrl.parse(url, ports=_PORTS, options=("tls",), example=MAIL_EXAMPLE)
            _check(read)
        except ValueError as error:
            raise ValueError(f"the mail server's URL {error}") from None  # its cause may quote it
        is_plain = "tls" in read.options or (read.scheme == "smtp" and read.hosts[0].is_local)
        return cls(url=read, is_plain=is_plain)

    def __str__(self) -> str:
        return str(self.url)


def _check(url: ServerUrl) -> None:
    tls = url.options.get("tls")
    if tls is not None and (tls != "off" or url.scheme == "smtps"):
        raise ValueError("has a tls that is not off, which it can be after smtp:// alone")
    if len(url.hosts) > 1:
        raise ValueError("names several hosts, and one is asked")
    if url.place:
        raise ValueError("has a path, and SMTP has none")


def checked_address(text: str) -> str:
    """Give an address of mail as it is, or the name of a user of this host.

    Raises:
        ValueError: it is neither.
    """
    if len(text) <= LONGEST_ADDRESS and (_ADDRESS.fullmatch(text) or _LOCAL.fullmatch(text)):
        return text
    raise ValueError("is no address of mail, such as ops@example.org")
