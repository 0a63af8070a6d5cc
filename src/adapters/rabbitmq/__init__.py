"""RabbitMQ behind the broker ports: pika for the blocking side, aiormq for the other.

Start reading at `declaring` for what there is, at `sending` for how 10,000 messages are confirmed
in half a second, at `subscription` for how a consumer stays alive.
"""

from .consuming import AiormqBroker
from .declaring import Difference
from .probing import probe_lanes
from .publishing import PikaBroker

__all__ = [
    "AiormqBroker",
    "Difference",
    "PikaBroker",
    "probe_lanes",
]
