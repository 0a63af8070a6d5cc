"""Runs at the boot of a host: once per boot, and never for a boot before the schedule."""

from datetime import datetime, timedelta
from typing import Final

import attrs

from ..texts.moments import say_duration, say_moment
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

    def why_not(self, changed_at: datetime, *, now: datetime) -> str | None:
        """Say why a boot is none of a schedule's; None if its run is due.

        It is, in the last day, and after a schedule was created, edited or enabled.
        """
        ago = timedelta(seconds=self.ago)
        if ago > LONGEST_AGO:
            return f"it was more than {say_duration(LONGEST_AGO)} ago"
        if now - ago <= changed_at:
            return f"the schedule was created, edited or enabled after it, {say_moment(changed_at)}"
        return None
