"""RabbitMQ behind the broker ports: pika for the blocking side, aio-pika for the other.

Start reading at `declaring` for what there is, at `sending` for how 10,000 messages are confirmed
in half a second, at `subscription` for how a consumer stays alive.
"""

from .async_broker import AioPikaBroker
from .declaration import Difference
from .probing import probe_lanes
from .publishing import PikaBroker

__all__ = [
    "AioPikaBroker",
    "Difference",
    "PikaBroker",
    "probe_lanes",
]
