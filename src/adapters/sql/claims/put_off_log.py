"""What the log says of schedules that are put off, or passed over, by their names."""

import logging
from collections.abc import Collection
from datetime import timedelta

from cronhare.application.logs import say
from cronhare.ports.ledger import LedgerRefused

from ..cooldown import MOST
from ..dialect import InDoubt, Locked
from .lock_backoff import (
    FIRST,
    LONGEST,
)

log = logging.getLogger(__name__)


class LockedSchedulesLog:
    """Those of which the log said that others hold them: it says of each when that is over."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def tell(self, schedule_id: int, name: str, wait: timedelta, locked: Locked) -> None:
        """Tell it at first, and then once a minute."""
        if FIRST < wait < LONGEST:
            return
        if len(self._names) < MOST:
            self._names[schedule_id] = name
        text = f"Schedule {name} is put off for {wait.total_seconds():.0f} s: {locked}"
        say(log, logging.WARNING, "schedule.held", text)

    def are_free(self, ids: Collection[int]) -> None:
        """Tell it of those that were just taken; nearly always there are none to tell of."""
        if not self._names:
            return
        for id_ in ids:
            if (name := self._names.pop(id_, None)) is not None:
                text = f"Schedule {name} is put off no more: it could be taken"
                say(log, logging.INFO, "schedule.back", text)


def tell_passed_over(name: str, refusal: LedgerRefused | InDoubt) -> None:
    """Tell of one that is nowhere to be seen but in the log."""
    text = f"Schedule {name} is passed over, for not even its problem can be written: {refusal}"
    say(log, logging.ERROR, "schedule.refused", text)
