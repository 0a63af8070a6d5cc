"""When all schedules are due: asked of the ledger in groups, however many there are."""

from typing import Protocol

from cronhare.domain.load.timings import Timings


class TimingStorePort(Protocol):
    """Counts schedules by when they are due. Every method may raise `LedgerUnavailable`.

    What tests/integration/test_timing_store_contract.py does not assert is not promised.
    """

    def timings(self) -> Timings:
        """Count the enabled schedules by when they are due, and by their jitter.

        The system's own are left out, and so are those that run by hand alone. Schedules with `H`
        in their text are read with their names.
        """
        ...

    def version(self) -> str:
        """Name what the answer rests on: another text once a schedule was written or deleted.

        It costs next to nothing, however many schedules there are.
        """
        ...
