"""pika's blocking connections: opening one, and closing it whatever state it is in."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pika import BlockingConnection

from .address import Address
from .errors import PIKA_ERRORS, resolving


@contextmanager
def closing_connection(connection: BlockingConnection) -> Iterator[BlockingConnection]:
    """Close the connection at the end."""
    try:
        yield connection
    finally:
        close_connection(connection)


def close_connection(connection: BlockingConnection) -> None:
    """Close it. Under an alarm the broker does not answer a close: then we go without."""
    with suppress(*PIKA_ERRORS):
        connection.close()


def connect(
    address: Address, *, name: str, blocked_timeout: float | None = None
) -> BlockingConnection:
    """Connect to the first node that answers.

    Raises:
        Exception: what pika says of the last one (`PIKA_ERRORS`).
    """
    *others, last = (
        address.for_pika(node, name=name, blocked_timeout=blocked_timeout)
        for node in address.nodes()
    )
    for node in others:  # pika itself would give up at a name that cannot be encoded
        with suppress(*PIKA_ERRORS), resolving():
            return BlockingConnection(node)
    with resolving():
        return BlockingConnection(last)
