"""What would let an instant run that did not, by the reason that its row or `explain` gives."""

from collections.abc import Iterator
from typing import Final

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
    "missed: more than": "Run a scheduler without such gaps; so many are not looked at one by one.",
    "missed: at least": 'A smaller gap is counted in full; misfire = "all" runs some of them.',
    "overlap": 'overlap = "allow" lets runs begin beside one that has not ended.',
    "the schedule was edited": "Edits hold from their moment on: none before it runs by itself.",
    "disabled": "It is on again since that edit, or off for another reason.",
    "ended": "A later ends_at, or none, lets it go on.",
    "broken": "The row is mended by now: `cronhare check` tells such faults before they are saved.",
    "the schedule is disabled": "`cronhare schedules enable {name}` switches it on.",
    "the schedule ended": "A later ends_at, or none, lets it go on.",
    "the schedule starts": "An earlier starts_at, or none, lets it begin sooner.",
    "it cannot be planned": "Mend what it says; `cronhare doctor` lists all such schedules.",
}


def remedies(reason: str, name: str) -> Iterator[str]:
    """Say what would change *reason* for the schedule *name*, from the next instant on."""
    for beginning, remedy in _REMEDIES.items():
        if reason.startswith(beginning):
            yield remedy.format(name=name)
            return
