"""Holding due instants back at once that could not start anyway, and would be in workers' way.

It asks without locks, so that a key in much demand keeps no claim waiting: a few too many may be
published, and are held back by the start fence.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import Connection

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.gates import Gates, Rules, key_gate, key_of
from cronhare.domain.schedules.schedule import BrokenSchedule, Schedule

from .gate_rows import read_keys
from .recent_claims import RecentClaims

#: At the gates of so many schedules is looked again after a claim, in case that there is a place
#: now. The others are left to whoever ends there, and to the reconciler.
MOST_TRIED: Final = 20


def hold_back(
    connection: Connection,
    wanted: Sequence[Execution],
    schedules: Sequence[Schedule | BrokenSchedule],
    recent: RecentClaims,
    now: datetime,
) -> Sequence[Execution]:
    """Hold those back whose keys have no place, in the order of their due times.

    What begins later, by jitter, is judged then. Nearly always no schedule has a key.
    """
    limits = {
        one.id: Rules(limit=one.concurrency.limit)
        for one in schedules
        if isinstance(one, Schedule) and one.concurrency is not None
    }
    if not limits:
        return wanted
    names = {key_gate(one.concurrency_key) for one in wanted if one.concurrency_key is not None}
    gates = Gates(keys=read_keys(connection, names), rules=limits)
    for name, places in recent.at(names, now).items():
        gates.keys[name].places |= places
    return [gates.claim(one) for one in sorted(wanted, key=lambda one: one.due_at)]


def gates_to_try(
    inserted: Sequence[Execution], recent: RecentClaims, now: datetime
) -> tuple[str, ...]:
    """Name the gates that hold some of a batch back: some schedules', and some keys'.

    These are the keys' whose latest claims have no written place yet: whoever lets the next one go
    has to know of them.
    """
    names = dict.fromkeys(one.held_by for one in inserted if one.held_by)
    if not names:
        return ()
    schedules = [name for name in names if key_of(name) is None]
    return (*recent.at(names, now), *schedules[:MOST_TRIED])
