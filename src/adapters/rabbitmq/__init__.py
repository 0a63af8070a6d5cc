"""RabbitMQ behind the broker ports: pika for the blocking side, aio-pika for the other.

Start reading at `declaring` for what there is, at `sending` for how 10,000 messages are confirmed
in half a second, at `subscription` for how a consumer stays alive.
"""

import logging

from .consuming import AiormqBroker
from .declaring import Difference
from .probing import LaneReport, LaneState, probe_lanes
from .publishing import PikaBroker

__all__ = [
    "AiormqBroker",
    "Difference",
    "LaneReport",
    "LaneState",
    "PikaBroker",
    "probe_lanes",
]

# What they notice, we say in our own words, once. On a first start pika would warn of each of the
# forty objects that are not there yet, and of a broker that is away with five tracebacks a try.
for _client in ("pika", "aiormq"):
    logging.getLogger(_client).setLevel(logging.CRITICAL)
