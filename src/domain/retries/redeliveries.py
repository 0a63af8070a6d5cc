"""Who held a message that came again, and which of them it has ended (C20).

A worker that dies before it has begun a run leaves no attempt in the ledger: the broker alone knows
that the message was out, and says so by *redelivered*. It says the same after a shutdown, a lost
connection and its own restart. So whoever takes such a message notes it first, and takes the note
back once the ledger knows more, or the message is given back. A note that stays is of one who died.

C20 is a line of docs/compatibility.md.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

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
    """A note that *holder* has taken a message *at* that time."""

    holder: Holder
    at: datetime


def crashes_of(
    holds: Sequence[Hold], *, us: Holder, now: datetime, policy: CrashPolicy
) -> tuple[Crash, ...]:
    """Say which holders the message may have ended, of late; the oldest first.

    A host that was booted since says nothing of the message: that ended all that ran there.
    """
    crashes = [
        Crash(hold.at, Ending.LOST, hold.holder.node)
        for hold in sorted(holds, key=lambda hold: hold.at)
        if hold.holder.node != us.node
        and not (hold.holder.host == us.host and hold.holder.boot != us.boot)
    ]
    return policy.recent(crashes, now=now)
