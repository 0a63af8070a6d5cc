"""The clients' errors when the broker is away, refuses, or has gone, and their text for people."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aio_pika.exceptions import ConnectionClosed
from aio_pika.exceptions import ProbableAuthenticationError as AioAuthenticationError
from pika.adapters.utils.connection_workflow import (
    AMQPConnectionWorkflowFailed,
    AMQPConnectorException,
)
from pika.exceptions import AMQPError, ProbableAccessDeniedError, ProbableAuthenticationError

from cronhare.adapters.tls import CertificatesUnusable
from cronhare.domain.diagnosis.servers import BROKER, Cause, cure_of

#: A broker that accepts a connection and then says nothing is an error that is no AMQPError.
PIKA_ERRORS = (AMQPError, AMQPConnectorException, OSError)

#: What else there is to know, or to type, of why a broker cannot be used.
HINTS: Final = {
    Cause.LOGIN: "RabbitMQ lets `guest` in from its own host only",
    Cause.PLACE: "`rabbitmqctl add_vhost NAME`, "
    "`rabbitmqctl set_permissions --vhost NAME USER '.*' '.*' '.*'`",
}

_USER: Final = re.compile(r"user \\?'[^']*'")

#: What the broker says, as pika quotes it.
_QUOTED: Final = re.compile(r"""ConnectionClosedByBroker: \(\d+\) (['"])(.*)\1""")


@contextmanager
def resolving() -> Iterator[None]:
    """Raise OSError for a host name that Python cannot encode, as for one that is not found.

    Python encodes a name before it asks a resolver, and raises UnicodeError where it cannot. The
    settings refuse some of these names, but which they are is Python's matter.
    """
    try:
        yield
    except UnicodeError as error:
        raise unresolved(error) from error


def unresolved(error: UnicodeError) -> OSError:
    """Make the error that a resolver raises for a name that it does not know."""
    return socket.gaierror(socket.EAI_NONAME, f"its name cannot be asked for: {error}")


def cause_of(error: BaseException) -> Cause:
    """Classify why no connection could be made."""
    inner = _innermost(error)
    match inner:
        case ProbableAuthenticationError() | AioAuthenticationError():
            return Cause.LOGIN
        case ProbableAccessDeniedError():
            return Cause.PLACE
        case ConnectionClosed() | CertificatesUnusable():
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
    """Say why no connection could be made, and the cure."""
    cause, said = cause_of(error), describe(error)
    if cause is Cause.OTHER:
        return said
    return f"{cause.value} ({said}): {cure_of(BROKER, cause, HINTS.get(cause, ''))}"


def _innermost(error: BaseException) -> BaseException:
    """Unwrap pika's workflow errors, which carry the cause inside."""
    while True:
        if isinstance(error, AMQPConnectionWorkflowFailed) and error.exceptions:
            error = error.exceptions[-1]
            continue
        inner = getattr(error, "exception", None) or (error.args[0] if error.args else None)
        if not isinstance(inner, BaseException):
            return error
        error = inner
