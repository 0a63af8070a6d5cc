"""How many deliveries a worker handles at a time."""

import attrs


@attrs.define(eq=False)
class Places:
    """So many are *shared* by the queues of a worker; each queue *apart* has one of its own.

    What a worker serves apart changes while it runs; any thread may ask.
    """

    shared: int
    apart: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """All of them."""
        return self.shared + len(self.apart)
