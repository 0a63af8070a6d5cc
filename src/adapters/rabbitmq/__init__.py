"""RabbitMQ behind the broker ports: pika for the blocking side, aio-pika for the other.

Start reading at `topology.declaring` for what there is, at `publisher.sending` for how 10,000
messages are confirmed in half a second, at `consumer.subscription` for how a consumer stays alive.
"""

from .async_broker import AioPikaBroker
from .publishing import PikaBroker
from .topology.declaration import Difference
from .topology.probing import probe_lanes

__all__ = [
    "AioPikaBroker",
    "Difference",
    "PikaBroker",
    "probe_lanes",
]
