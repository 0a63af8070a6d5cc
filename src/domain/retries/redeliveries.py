"""Who held a message that came again, and which of them it has ended (C20).

A worker that dies before it has begun a run leaves no attempt in the ledger: the broker alone knows
that the message was out, and says so by *redelivered*. It says the same after a shutdown, a lost
connection and its own restart. So whoever takes such a message notes it first, and takes the note
back once the ledger knows more, or the message is given back. A note that stays after its node is
of one who died. A living node's says nothing: it may have an equal message in hand, as another
program's need no id, or a copy of ours; or the ledger did not answer as the note was taken back.

C20 is a line of docs/compatibility.md.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from ..nodes import is_gone, is_presumed_dead, read_node
from .crashes import Crash, CrashPolicy
from .outcome import Ending

#: Notes of the dead are kept for so long: no window of crashes is longer.
KEPT_FOR: Final = timedelta(days=1)


@attrs.frozen(kw_only=True)
class Holder:
    """A node, the host that it runs on, and that host's boot."""

    node: str
    host: str
    boot: str


@attrs.frozen(kw_only=True)
class Hold:
    """A note that *holder* has taken a message *at* that time.

    *seen_at* is when that node reported itself last; None where there is no report of it.
    """

    holder: Holder
    at: datetime
    seen_at: datetime | None = None


def crashes_of(
    holds: Sequence[Hold],
    *,
    us: Holder,
    now: datetime,
    policy: CrashPolicy,
    lives: Callable[[int], bool],
) -> tuple[Crash, ...]:
    """Say which holders the message may have ended, of late; the oldest first.

    A host that was booted since says nothing of the message: that ended all that ran there. *lives*
    tells whether a PID of our own place is in use.
    """
    crashes = [
        Crash(hold.at, Ending.LOST, hold.holder.node)
        for hold in sorted(holds, key=lambda hold: hold.at)
        if hold.holder.node != us.node
        and not (hold.holder.host == us.host and hold.holder.boot != us.boot)
        and _has_ended(hold, us=us, now=now, lives=lives)
    ]
    return policy.recent(crashes, now=now)


def _has_ended(hold: Hold, *, us: Holder, now: datetime, lives: Callable[[int], bool]) -> bool:
    """Tell whether a holder is gone: by its PID where that is proof, by its silence elsewhere."""
    ourselves, holder = read_node(us.node), read_node(hold.holder.node)
    if ourselves is not None and holder is not None:
        gone = is_gone(holder, ourselves=ourselves, lives=lives)
        if gone is not None:
            return gone
    return hold.seen_at is None or is_presumed_dead(hold.seen_at, now)
