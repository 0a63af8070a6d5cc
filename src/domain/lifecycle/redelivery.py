"""Redelivery: when a message that has not been consumed is sent again.

The broker may have lost it, its queue may be long, or no worker may consume: the ledger cannot
tell. So each confirmed copy doubles the wait for the next one; an unconfirmed copy does not count.
"""

from datetime import datetime, timedelta

import attrs

from ..execution import Execution, State
from ..retries.backoff import CEILING_MS, exponential
from ..retries.budget import LONGEST_DEFERRAL

#: The wait before a confirmed message is sent again for the first time, and the longest wait: 8
#: copies on the first day, then one a day.
FIRST_WAIT = timedelta(minutes=5)
LONGEST_WAIT = timedelta(days=1)

#: The wait after a copy that was not confirmed.
UNCONFIRMED_WAIT = timedelta(seconds=30)

#: A message that may have been lost while it waited for its time is sent again so long after it.
LOST_WAIT = timedelta(seconds=5)

#: The longest wait of all: of a week for a retry's budget, of another for its delay, and of a day
#: for its last copy. Only a first attempt, which waits for jitter, may wait for longer.
FARTHEST = LONGEST_DEFERRAL + timedelta(milliseconds=CEILING_MS) + LONGEST_WAIT

#: A broker that confirmed nothing for so long may have lost its messages.
DOUBTED_AFTER = timedelta(minutes=1)

#: After so many copies each wait is the longest.
MANY_RESENDS = (LONGEST_WAIT // FIRST_WAIT).bit_length() + 1


@attrs.frozen(kw_only=True)
class Graces:
    """How long something may be late before the reconciler sends it again."""

    claimed: timedelta = timedelta(seconds=10)
    retrying: timedelta = LOST_WAIT
    published: timedelta = FIRST_WAIT
    ended: timedelta = UNCONFIRMED_WAIT

    def of(self, state: State) -> timedelta:
        """The grace of an execution in this state."""
        match state:
            case State.CLAIMED:
                return self.claimed
            case State.RETRYING:
                return self.retrying
        return self.published


def wait_after(resends: int) -> timedelta:
    """Say how long a message may take that was sent again *resends* times.

    >>> [wait_after(resends) // timedelta(minutes=1) for resends in (0, 1, 2, 8, 9, 10**6)]
    [5, 10, 20, 1280, 1440, 1440]
    """
    return exponential(FIRST_WAIT, resends, LONGEST_WAIT)


def expected_anew_at(found: Execution, now: datetime, *, grace: timedelta) -> datetime:
    """Say from when on the grace counts for one that was found late and not yet sent again.

    *grace* is that of the published.
    """
    return now + UNCONFIRMED_WAIT - grace if found.state is State.PUBLISHED else now


def after_resend(resends: int, state: State, sent_at: datetime) -> datetime:
    """Say from when on the grace counts after a confirmed copy; *resends* counts those before."""
    wait = wait_after(resends)
    return sent_at + wait - FIRST_WAIT if state is State.PUBLISHED else sent_at + wait


def expected_soon(state: State, now: datetime) -> datetime:
    """Say up to when an execution is expected that is about to be sent again anyway."""
    soon = now + UNCONFIRMED_WAIT
    return soon - FIRST_WAIT if state is State.PUBLISHED else soon


def expected_after_doubt(next_attempt_at: datetime | None, now: datetime) -> datetime:
    """Say from when on the grace of the published counts for one that a broker may have lost.

    One that waits for its time is overdue a little after it, as it may be there; others are now.
    """
    if next_attempt_at is None or next_attempt_at <= now:
        return now - FIRST_WAIT
    return next_attempt_at + LOST_WAIT - FIRST_WAIT
