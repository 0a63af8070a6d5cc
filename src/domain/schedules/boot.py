"""Runs at the boot of a host: once per boot, and never for a boot before the schedule."""

from datetime import datetime, timedelta
from typing import Final

import attrs

from .keys import boot_key

#: A boot longer ago causes no run. The ledger keeps its runs for so long: none happens twice.
LONGEST_AGO: Final = timedelta(days=1)


@attrs.frozen
class Boot:
    """One boot of one host: the kernel's name for it, and how many seconds *ago* it was."""

    name: str
    ago: float

    @property
    def key(self) -> str:
        """The execution key of a schedule's run at this boot."""
        return boot_key(self.name)

    def concerns(self, changed_at: datetime, *, now: datetime) -> bool:
        """Whether it was in the last day, and after a schedule was created, edited or enabled."""
        ago = timedelta(seconds=self.ago)
        return ago <= LONGEST_AGO and now - ago > changed_at
