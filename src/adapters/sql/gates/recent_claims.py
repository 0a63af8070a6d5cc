"""What this process claimed with a key in the last seconds, and what may have no place yet.

A place is written by whoever starts an attempt; until then a claim is known by nobody but its own
row, which no index finds by its key. So the next page of the same minute would claim as many again.
Nothing depends on it: these are ids to look for, and what is too much is held back at its start.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.gates import begins_now, key_gate

#: So many gates are remembered, and for so long; beyond that all are forgotten.
MOST: Final = 50_000
RECENT: Final = timedelta(seconds=10)

#: The attempt that has a place, by its execution.
Places = dict[int, int]


class RecentClaims:
    """Claims by their gates. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[str, tuple[datetime, Places]] = {}

    def note(self, claimed: Sequence[Execution]) -> None:
        """Take note of claims; nearly always none has a key."""
        keyed = [one for one in claimed if one.concurrency_key is not None and begins_now(one)]
        if not keyed:
            return
        with self._lock:
            if len(self._found) > MOST:
                self._found.clear()
            for one in keyed:
                gate, now = key_gate(one.concurrency_key or ""), one.executed_at
                self._found[gate] = (now, {**self._places(gate, now), one.id: one.attempt})

    def at(self, gates: Collection[str], now: datetime) -> dict[str, Places]:
        """Give what was claimed for some gates."""
        if not self._found:
            return {}
        with self._lock:
            found = {gate: self._places(gate, now) for gate in gates if gate in self._found}
        return {gate: places for gate, places in found.items() if places}

    def forget(self, gates: Collection[str]) -> None:
        """Drop what has its places in the rows of gates."""
        with self._lock:
            for gate in gates:
                self._found.pop(gate, None)

    def _places(self, gate: str, now: datetime) -> Places:
        at, places = self._found.get(gate, (now, {}))
        return places if abs(now - at) <= RECENT else {}
