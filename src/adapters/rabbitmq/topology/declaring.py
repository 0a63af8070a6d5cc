"""Declaring the topology through pika, for the blocking side."""

from functools import partial

from cronhare.domain.topology import Topology
from cronhare.ports.broker import BrokerUnavailable

from ..connection.address import Address
from ..connection.blocking import TopologyClient, connect
from ..connection.errors import TROUBLE, unconnected
from ..wire.versions import QUORUM, arguments
from .declaration import Declared, declaration


def declare(
    address: Address,
    topology: Topology,
    *,
    queue_type: str = QUORUM,
    deduplication: bool = False,
) -> Declared:
    """Declare all that is not there yet, and tell what is there with other arguments, or refused.

    It takes a connection of its own, some 60 short round trips, and can be repeated at any time.
    A queue that the broker fails over costs another connection, and is left out as well.

    Raises:
        BrokerUnavailable: the broker is away, or will not let us make an exchange that is missing.
    """
    arguments_of = partial(arguments, queue_type=queue_type, deduplication=deduplication)
    try:
        with TopologyClient(
            partial(connect, address, name="cronhare declaring"), arguments_of
        ) as walk:
            steps = declaration(topology, vhost=address.vhost, losses=walk.losses)
            step = next(steps)
            while not isinstance(step, Declared):
                step = steps.send(walk.answer(step))
            return step
    except TROUBLE as error:
        raise BrokerUnavailable(f"declaring at {address}: {unconnected(error)}") from error
