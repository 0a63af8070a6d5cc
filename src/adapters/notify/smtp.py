"""One conversation with a mail server, which ends in time, and so does what is read of it."""

import smtplib
import ssl
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage
from typing import Final, TypeAlias

from cronhare.adapters.connections import Connection, look_up
from cronhare.domain.addresses.servers import MailServer

#: Bytes that a server may say before TLS begins, and then: lines of up to 512 (RFC 5321).
LONGEST_TALK: Final = 64 * 1024

#: What a server answers when it is ready, and to STARTTLS.
_READY: Final = 220

#: What a server answered, by the address that it refused.
Refused: TypeAlias = dict[str, tuple[int, bytes]]


def hand_in(
    connection: Connection, server: MailServer, mail: EmailMessage, to: Sequence[str]
) -> Refused:
    """Hand a mail to a server, which may refuse some of its addresses.

    Raises:
        SMTPRecipientsRefused: it took the mail for none of them.
        OSError: it did not take the mail; SMTPException is one.
        ValueError: it said what cannot be read.
    """
    [host] = server.url.hosts
    tls, is_wrapped = ssl.create_default_context(), server.url.scheme == "smtps"
    own_name = smtplib.SMTP().local_hostname  # it asks the resolver: before a server waits for us
    with connection.opened(look_up(host.name, host.port), host.port):
        if is_wrapped:
            connection.secure(tls, host.name)
        smtp = _speaking(connection, own_name)
        code, said = smtp.getreply()
        if code != _READY:
            raise smtplib.SMTPConnectError(code, said)
        if not is_wrapped and not server.is_plain:
            _ask_for_tls(smtp)
            connection.secure(tls, host.name)
            # A new one: what was said in plain text is forgotten (RFC 3207).
            smtp = _speaking(connection, own_name)
        try:
            if server.url.user is not None:
                smtp.login(server.url.user, server.url.password or "")
            return smtp.send_message(mail, to_addrs=to)
        finally:
            with suppress(OSError):  # a mail that was taken is taken, whatever comes of this
                smtp.putcmd("QUIT")


def _speaking(connection: Connection, own_name: str) -> smtplib.SMTP:
    """Speak SMTP over a connection. smtplib's timeout begins anew with each byte."""
    smtp = smtplib.SMTP(local_hostname=own_name)
    smtp.sock = connection.bounded(most=LONGEST_TALK)  # type: ignore[assignment] # all it uses
    return smtp


def _ask_for_tls(smtp: smtplib.SMTP) -> None:
    smtp.ehlo_or_helo_if_needed()
    if not smtp.has_extn("starttls"):
        raise smtplib.SMTPNotSupportedError("it has no STARTTLS, and none is told in plain text")
    code, said = smtp.docmd("STARTTLS")
    if code != _READY:
        raise smtplib.SMTPResponseException(code, said)
