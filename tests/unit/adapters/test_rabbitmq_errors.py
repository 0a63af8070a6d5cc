"""What people read of a broker that cannot be used, whichever client met it."""

import asyncio
import socket
import ssl

import pytest
from aio_pika import exceptions as of_aio_pika
from pika import exceptions as of_pika
from pika.adapters.utils.connection_workflow import (
    AMQPConnectionWorkflowFailed,
    AMQPConnectorSocketConnectError,
)

from cronhare.adapters.rabbitmq.client import why_unreachable
from cronhare.adapters.rabbitmq.consumer import translate_errors
from cronhare.adapters.tls import CertificatesUnusable
from cronhare.ports.broker import BrokerUnavailable

LOGIN = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"
NO_VHOST = "NOT_ALLOWED - vhost nowhere not found"
NOT_LET_IN = "NOT_ALLOWED - access to vhost 'cron' refused for user 's3cret'"

#: As pika tells how the broker ended a connection that was being made.
CLOSED = "ConnectionClosedByBroker: ({}) {!r}"


def refused() -> AMQPConnectorSocketConnectError:
    return AMQPConnectorSocketConnectError(ConnectionRefusedError(111, "Connection refused"))


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (of_pika.AMQPConnectionError(refused()), "nobody answers (Connection refused): start it"),
        (
            of_pika.AMQPConnectionError(AMQPConnectionWorkflowFailed([OSError(), refused()])),
            "nobody answers (Connection refused): start it",
        ),
        (
            of_aio_pika.AMQPConnectionError(111, "Connect call failed ('10.0.0.7', 5672)"),
            "nobody answers (Connect call failed ('10.0.0.7', 5672)): start it",
        ),
        (socket.gaierror(-2, "Name or service not known"), "nobody answers (Name or service not"),
        (
            of_pika.ProbableAuthenticationError(CLOSED.format(403, LOGIN)),
            f"the login is refused ({LOGIN}): see the user and password in CRON_BROKER_URL",
        ),
        (
            of_aio_pika.ProbableAuthenticationError(LOGIN),
            f"the login is refused ({LOGIN}): see the user and password in CRON_BROKER_URL",
        ),
        (
            of_pika.ProbableAccessDeniedError(CLOSED.format(530, NO_VHOST)),
            f"the virtual host or database is refused ({NO_VHOST}): make the virtual host",
        ),
        (
            of_pika.ProbableAccessDeniedError(CLOSED.format(530, NOT_LET_IN)),
            "(NOT_ALLOWED - access to vhost 'cron' refused for this user)",
        ),
    ],
)
def test_why_no_connection_can_be_made_is_told_with_what_to_do(
    error: BaseException, what: str
) -> None:
    text = why_unreachable(error)

    assert what in text
    assert "s3cret" not in text
    assert "Error" not in text


@pytest.mark.parametrize(
    "error",
    [
        ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
        of_aio_pika.AMQPConnectionError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
        CertificatesUnusable("cafile (ca.pem) cannot be read as PEM"),
    ],
)
def test_a_link_that_cannot_be_encrypted_is_no_absence(error: BaseException) -> None:
    assert "nobody answers" not in why_unreachable(error)


@pytest.mark.parametrize("nameless", [Exception, Exception("closed")])
def test_what_is_asked_of_a_channel_that_was_closed_meanwhile_is_a_broker_that_is_away(
    nameless: Exception | type[Exception],
) -> None:
    async def ask() -> None:
        with translate_errors("consuming a no more"):
            raise nameless

    with pytest.raises(BrokerUnavailable, match="consuming a no more: the connection was closed"):
        asyncio.run(ask())
