"""Who is told of events in this process, shared by all that tell or remind."""

import attrs

from cronhare.domain.schedules.notify import Subscriptions


@attrs.define(eq=False)
class Subscribers:
    """The subscriptions of this process: *current* is replaced by a reload of the jobs file.

    Whoever reads it twice may find another: take it once for each round.
    """

    current: Subscriptions = attrs.field(factory=Subscriptions)
