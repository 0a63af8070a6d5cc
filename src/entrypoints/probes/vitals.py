"""What a process knows of itself: its loops, its proofs, its numbers."""

from collections.abc import Callable, Mapping

import attrs

from .proofs import Proofs
from .turns import Turns


def _unknown() -> None:
    return None


@attrs.define(eq=False, kw_only=True)
class Vitals:
    """What the parts of a process have registered, for those who ask.

    *clock_offset* is how many seconds this host's clock is ahead of the ledger's. *running* and
    *slots* are a worker's. Each may be asked in any thread, and is None where it is not known. Who
    *measures_ledger* has it counted for whoever scrapes; of many workers none does.
    """

    turns: Turns = attrs.field(factory=Turns)
    proofs: Proofs = attrs.field(factory=Proofs)
    clock_offset: Callable[[], float | None] = _unknown
    running: Callable[[], int | None] = _unknown
    slots: Callable[[], int | None] = _unknown
    measures_ledger: bool = False

    def numbers(self) -> Mapping[str, float | None]:
        """Give what is one number."""
        return {
            "clock_offset": self.clock_offset(),
            "running": self.running(),
            "slots": self.slots(),
        }

    def measures_ledger_now(self) -> bool:
        """Whether the ledger is to be counted: never while it is away."""
        return self.measures_ledger and self.proofs.up().get("ledger", False)
