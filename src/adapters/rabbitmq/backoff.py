"""How long to wait before knocking again, and before refusals are no longer believed."""

import random
from collections.abc import Callable

#: Seconds: the first wait and the longest.
FIRST = 0.25
LONGEST = 30.0

#: Seconds after which a channel that is refused something is replaced. To one that a full queue has
#: refused, RabbitMQ 3.10 refuses all that is for that queue for ever, when it has room again too.
RENEW_AFTER = 10.0


class Backoff:
    """Waits that double, jittered, so that a broker that comes back is not met by all at once."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        """*chance* gives numbers in [0, 1)."""
        self._chance = chance
        self._failures = 0

    def reset(self) -> None:
        """Begin anew: it went well."""
        self._failures = 0

    def next(self) -> float:
        """Give the next wait, in seconds: between half of it and all of it."""
        full = min(FIRST * 2.0 ** min(self._failures, 16), LONGEST)
        self._failures += 1
        return full * (1 + self._chance()) / 2
