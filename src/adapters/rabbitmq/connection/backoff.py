"""How long to wait before connecting again, and before a channel that was refused is replaced."""

import random
from collections.abc import Callable

from cronhare.domain.retries.backoff import Waits

#: Seconds: the first wait and the longest.
FIRST = 0.25
LONGEST = 30.0

#: Seconds after which a channel that was refused something is replaced. Once a full queue has
#: refused a publish, RabbitMQ 3.10 refuses all for it on that channel, also once it has room.
RENEW_AFTER = 10.0


class Backoff(Waits[float]):
    """The waits between attempts to connect, in seconds."""

    def __init__(self, random_fraction: Callable[[], float] = random.random) -> None:
        """*random_fraction* gives numbers in [0, 1)."""
        super().__init__(FIRST, LONGEST, random_fraction)
