"""How long something that was published may take before it is looked for again."""

from datetime import datetime, timedelta

from .execution import Execution, State

#: However long a message has been in its queue, it is looked for again after so long.
LONGEST_WAIT = timedelta(days=1)

#: A retry that was sent again is given so long to be started.
RESENT_WAIT = timedelta(minutes=5)


def expected_anew_at(found: Execution, now: datetime, *, grace: timedelta) -> datetime:
    """Say from when on the grace counts again, for one that was found late just now.

    *grace* is that of the published: for them the wait doubles, since a queue may be long.
    """
    if found.state is not State.PUBLISHED:
        return now
    waited = now - (found.published_at or now)
    return now + min(max(2 * waited, grace), LONGEST_WAIT) - grace
