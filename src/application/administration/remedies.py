"""What would let an instant run that did not, by the reason that its row gives."""

from collections.abc import Iterator
from typing import Final

from cronhare.domain.execution import Execution

#: By how a reason begins. The reasons are made in `domain/schedules`.
_REMEDIES: Final = {
    "paused": "`cronhare schedules resume {name}` ends the pause, if it still lasts.",
    "calendar": "Its skip_on names that calendar: without the day there, or the name, it runs.",
    "in no window": "Its only_on lets it run in those calendars' windows alone.",
    "blackout": "Its blackout has that window: without it, it runs.",
    "expired": "A longer expires lets it begin later; `cronhare queues` has how much waits.",
    "max_runs": "A larger max_runs lets it go on.",
    "missed, and the misfire policy is skip": 'misfire = "once" or "all" catches up.',
    "missed, and caught up": 'misfire = "all" runs each of them.',
    "missed, and more": "A larger misfire.cap catches up more at once.",
    "missed, and older": "A longer misfire.window catches up from further back.",
    "overlap": 'overlap = "allow" lets runs begin beside one that has not ended.',
}


def remedies(execution: Execution) -> Iterator[str]:
    """Say what would change it, for the next time, and for this one."""
    reason = execution.last_error or ""
    for beginning, remedy in _REMEDIES.items():
        if reason.startswith(beginning):
            yield remedy.format(name=execution.schedule_name)
            return
