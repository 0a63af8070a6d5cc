"""What holds for any server: it is there or not, and it has a version."""

import re

import attrs

from cronhare.ports.inspection import Cause, Severity, Unreachable

from .finding import Finding


@attrs.frozen(kw_only=True)
class Server:
    """How a server is spoken of: by its *setting*, and what a *place* on it is.

    *plain* is what asks for plain text in the setting, *encrypted* what is done to have TLS.
    """

    subject: str
    setting: str
    place: str
    plain: str
    encrypted: str


BROKER = Server(
    subject="broker",
    setting="CRON_BROKER_URL",
    place="virtual host",
    plain="amqp://",
    encrypted="write amqps:// in CRON_BROKER_URL, with ?cafile= where the CA is your own,",
)
DATABASE = Server(
    subject="database",
    setting="CRON_DATABASE_URL",
    place="database",
    plain="?tls=off",
    encrypted="take ?tls=off out of CRON_DATABASE_URL",
)


def judge_unreachable(server: Server, facts: Unreachable) -> Finding:
    """Say why a server cannot be asked, and what to look at."""
    what, cure = f"It cannot be used: {facts.said}", cure_of(server, facts.cause, facts.hint)
    return Finding(Severity.ERROR, server.subject, what, cure)


def cure_of(server: Server, cause: Cause, hint: str) -> str:
    """Say what to look at when a server cannot be used; for *hint* see `Unreachable`."""
    match cause:
        case Cause.ABSENT:
            return (
                f"start it, or see that {server.setting} names its host and port and that no "
                "firewall is between"
            )
        case Cause.LOGIN:
            return (
                f"see the user and password in {server.setting}, or in the file that "
                f"{server.setting}_FILE names{f'; {hint}' if hint else ''}"
            )
        case Cause.PLACE:
            made = f"make the {server.place} and let the user into it{f' ({hint})' if hint else ''}"
            return f"{made}; or name another one at the end of {server.setting}"
        case Cause.OTHER:
            return f"the server's own log may say more; the address is {server.setting}"


def version_of(text: str) -> tuple[int, ...]:
    """Read the numbers that a version begins with; empty for none.

    >>> version_of("10.11.6-MariaDB-1:10.11.6+maria~deb12"), version_of("4.0.0-rc.1")
    ((10, 11, 6), (4, 0, 0))
    >>> version_of("nightly")
    ()
    """
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found.group().split("."))) if found else ()
