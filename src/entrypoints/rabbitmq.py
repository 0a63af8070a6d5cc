"""The adapters for RabbitMQ, imported where they are chosen: an extra brings their libraries."""

from typing import TYPE_CHECKING, Any

from cronhare.adapters.extras import require

if TYPE_CHECKING:
    from cronhare.adapters.rabbitmq import AioPikaBroker, PikaBroker
    from cronhare.adapters.rabbitmq.topology.inspection import RabbitInspection


def check_usable(url: str) -> None:
    """Find what keeps a URL that can be read from being used; to be asked before all others.

    Raises:
        ExtraMissing: the libraries are not installed.
        CertificatesUnusable: a certificate file cannot be read, or is none.
    """
    require("rabbitmq")
    from cronhare.adapters.rabbitmq.connection.address import Address  # noqa: PLC0415

    Address.parse(url).context()


def pika_broker(url: str, **options: Any) -> "PikaBroker":  # noqa: ANN401 - as it takes them
    """Make what publishes, and reads for operators."""
    from cronhare.adapters.rabbitmq import PikaBroker  # noqa: PLC0415

    return PikaBroker(url, **options)


def aio_pika_broker(url: str, **options: Any) -> "AioPikaBroker":  # noqa: ANN401 - as it takes them
    """Make what consumes, and publishes for the worker."""
    from cronhare.adapters.rabbitmq import AioPikaBroker  # noqa: PLC0415

    return AioPikaBroker(url, **options)


def inspection(url: str, **options: Any) -> "RabbitInspection":  # noqa: ANN401 - as it takes them
    """Make what looks at the broker for `cronhare doctor`."""
    from cronhare.adapters.rabbitmq.topology.inspection import RabbitInspection  # noqa: PLC0415

    return RabbitInspection(url, **options)
