"""The adapters for RabbitMQ, imported only when they are used: their libraries are an extra."""

import logging
from typing import TYPE_CHECKING, Any, Final

from cronhare.adapters.extras import require

if TYPE_CHECKING:
    from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker
    from cronhare.adapters.rabbitmq.broker import PikaBroker
    from cronhare.adapters.rabbitmq.inspection import RabbitInspection

#: Seconds that a person waits for a broker's answer, and half of it for its farewell.
SENDING_TIMEOUT: Final = 2.0


def check_usable(url: str) -> None:
    """Make sure that a URL can be used; to be called before the functions below.

    Raises:
        ExtraMissing: the libraries are not installed.
        CertificatesUnusable: a certificate file cannot be read, or is none.
    """
    require("rabbitmq")
    from cronhare.adapters.rabbitmq.client import Address  # noqa: PLC0415

    Address.parse(url).context()


def preload() -> None:
    """Import what publishes and inspects, for a process that lives long.

    What consumes is imported with a worker's connection, at its start.
    """
    import cronhare.adapters.rabbitmq.broker  # noqa: PLC0415
    import cronhare.adapters.rabbitmq.inspection  # noqa: F401, PLC0415


def pika_broker(url: str, **options: Any) -> "PikaBroker":  # noqa: ANN401 - as it takes them
    """Make the blocking broker."""
    from cronhare.adapters.rabbitmq.broker import PikaBroker  # noqa: PLC0415

    return PikaBroker(url, **options)


def pika_sender(url: str) -> "PikaBroker":
    """Make a blocking broker for one message: whoever waits for it is a person."""
    return pika_broker(url, declares=False, publish_timeout=SENDING_TIMEOUT, level=logging.DEBUG)


def aio_pika_broker(url: str, **options: Any) -> "AioPikaBroker":  # noqa: ANN401 - as it takes them
    """Make the asynchronous broker."""
    from cronhare.adapters.rabbitmq.async_broker import AioPikaBroker  # noqa: PLC0415

    return AioPikaBroker(url, **options)


def inspection(url: str, **options: Any) -> "RabbitInspection":  # noqa: ANN401 - as it takes them
    """Make the inspection for `cronhare doctor`."""
    from cronhare.adapters.rabbitmq.inspection import RabbitInspection  # noqa: PLC0415

    return RabbitInspection(url, **options)
