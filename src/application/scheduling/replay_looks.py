"""When to look at replays again: each at its time, and less often while none gets on."""

from datetime import datetime
from typing import Final

from cronhare.domain.lifecycle.replay_pace import FULL_FOR, STEP, Replay, ReplayState
from cronhare.domain.retries.backoff import Waits

#: Seconds until the next look while no replay goes on: so late one begins that is new.
IDLE: Final = 5.0
_SOON, _LATEST = FULL_FOR.total_seconds(), STEP.total_seconds()

#: A rest is so many times as long as the round before, up to a step: among 100,000
#: items of many keys a look takes most of a second.
_SHARE: Final = 4


class ReplayLooks:
    """Remembers the replays that this process has taken on and that go on."""

    def __init__(self) -> None:
        self._known: dict[int, Replay] = {}
        self._waits = Waits(_SOON, _LATEST)
        self._is_idle = True

    def note(self, replay: Replay) -> None:
        """Take note of a step: of where nothing began or ended the next round is later."""
        before = self._known.pop(replay.id, None)
        if replay.state is ReplayState.ACTIVE:
            self._known[replay.id] = replay
        if before is None or before.progress != replay.progress:
            self._waits.reset()
        self._is_idle = False

    def rest(self, *, began: datetime, now: datetime) -> float:
        """Say how many seconds to rest after a round from *began* to *now*, when none was due.

        One that is known and was due nonetheless is taken on by another scheduler.
        """
        was_idle, self._is_idle = self._is_idle, True
        self._known = {id_: one for id_, one in self._known.items() if one.next_at > now}
        if not self._known:
            return IDLE if was_idle else _LATEST
        soonest = min(one.next_at for one in self._known.values())
        share = min(_SHARE * (now - began).total_seconds(), _LATEST)
        least = 0.0 if was_idle else self._waits.next()
        return min(max((soonest - now).total_seconds(), least, share), IDLE)
