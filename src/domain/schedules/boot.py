"""Runs at the boot of a host: once per boot, and never for a boot from before the schedule."""

from datetime import datetime, timedelta
from typing import Final

import attrs

from .keys import boot_key

#: After so long nobody waits for it any more; and the ledger still knows that it ran.
LONGEST_AGO: Final = timedelta(days=1)


@attrs.frozen
class Boot:
    """One boot of one host: the kernel's name for it, and how many seconds it is *ago*."""

    name: str
    ago: float

    @property
    def key(self) -> str:
        """The key of a schedule's run at this boot."""
        return boot_key(self.name)

    def concerns(self, changed_at: datetime, *, now: datetime) -> bool:
        """Whether it came in the last day, and after a schedule was made, edited or enabled."""
        ago = timedelta(seconds=self.ago)
        return ago <= LONGEST_AGO and now - ago > changed_at
