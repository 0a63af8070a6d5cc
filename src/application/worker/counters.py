"""What a worker did since it began, for its log."""

import attrs

from cronhare.domain.execution import State
from cronhare.ports.attempts import EndRefused, Superseded


@attrs.define
class Counters:
    """What a worker did since it began."""

    succeeded: int = 0
    retried: int = 0
    ended: int = 0
    adopted: int = 0
    fenced: int = 0
    held: int = 0
    deferred: int = 0
    superseded: int = 0
    parked: int = 0

    def count(self, recorded: State | EndRefused | Superseded) -> None:
        """Count an end, by what the ledger recorded of it."""
        match recorded:
            case State.SUCCEEDED:
                self.succeeded += 1
            case State.RETRYING:
                self.retried += 1
            case Superseded() | EndRefused(is_over=False):
                self.superseded += 1
            case _:
                self.ended += 1
