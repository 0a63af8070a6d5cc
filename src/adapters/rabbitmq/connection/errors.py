"""What both clients raise when the broker is away, refuses, or has gone, and how people read it."""

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
from cronhare.domain.diagnosis import BROKER, Cause, cure_of

#: pika's. A broker that takes a connection and then says nothing is told in a class that is no
#: AMQPError.
TROUBLE = (AMQPError, AMQPConnectorException, OSError)

_USER: Final = re.compile(r"user \\?'[^']*'")

#: What the broker says, as pika quotes it.
_QUOTED: Final = re.compile(r"""ConnectionClosedByBroker: \(\d+\) (['"])(.*)\1""")


@contextmanager
def resolving() -> Iterator[None]:
    """Connect to a host. One whose name cannot even be asked for is away as one without an address.

    Python encodes names before it asks a resolver, and raises UnicodeError of what it cannot: no
    OSError. Which names those are is its matter, and not only that of what the settings refuse.
    """
    try:
        yield
    except UnicodeError as error:
        raise unresolved(error) from error


def unresolved(error: UnicodeError) -> OSError:
    """Tell that a host's name cannot be asked for, as a resolver tells of one that it lacks."""
    return socket.gaierror(socket.EAI_NONAME, f"its name cannot be asked for: {error}")


def cause_of(error: BaseException) -> Cause:
    """Tell why no connection could be made."""
    inner = _innermost(error)
    match inner:
        case ProbableAuthenticationError() | AioAuthenticationError():
            return Cause.LOGIN
        case ProbableAccessDeniedError():
            return Cause.PLACE
        case ConnectionClosed() | CertificatesUnusable():
            return Cause.OTHER
    # TLS spoken to a plain port, say, is an OSError as well, and no absence.
    is_tls = "SSL" in f"{type(inner).__name__} {inner}"
    return Cause.ABSENT if isinstance(inner, OSError) and not is_tls else Cause.OTHER


def said_by(error: BaseException) -> str:
    """Write what happened, without the user in it: where passwords are mistyped, it may be one."""
    inner = _innermost(error)
    said = getattr(inner, "reply_text", None) or getattr(inner, "strerror", None) or str(inner)
    if quoted := _QUOTED.search(str(said)):
        said = quoted[2]
    return _USER.sub("this user", str(said)) or type(inner).__name__


def unconnected(error: BaseException) -> str:
    """Say why no connection could be made, and what to do about it."""
    cause, said = cause_of(error), said_by(error)
    if cause is Cause.OTHER:
        return said
    return f"{cause.value} ({said}): {cure_of(BROKER, cause)}"


def _innermost(error: BaseException) -> BaseException:
    """Unwrap pika's workflow errors, which carry what really happened inside."""
    while True:
        if isinstance(error, AMQPConnectionWorkflowFailed) and error.exceptions:
            error = error.exceptions[-1]
            continue
        inner = getattr(error, "exception", None) or (error.args[0] if error.args else None)
        if not isinstance(inner, BaseException):
            return error
        error = inner
