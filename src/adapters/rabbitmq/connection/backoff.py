"""How long to wait before knocking again, and before refusals are no longer believed."""

import random
from collections.abc import Callable

from cronhare.domain.retries.backoff import Waits

#: Seconds: the first wait and the longest.
FIRST = 0.25
LONGEST = 30.0

#: Seconds after which a channel that is refused something is replaced. To one that a full queue has
#: refused, RabbitMQ 3.10 refuses all that is for that queue for ever, when it has room again too.
RENEW_AFTER = 10.0


class Backoff(Waits[float]):
    """The waits before a broker is asked again, in seconds."""

    def __init__(self, random_fraction: Callable[[], float] = random.random) -> None:
        """*random_fraction* gives numbers in [0, 1)."""
        super().__init__(FIRST, LONGEST, random_fraction)
