"""A scheduler tells of alerts what nobody has told: the last worker may be gone (ADR 75)."""

import asyncio

from cronhare.application.events import relay
from cronhare.application.events.subscribers import Subscribers
from cronhare.domain.schedules.notify import Subscriptions
from cronhare.domain.schedules.untellable import without, without_programs

from ..container import Container
from .untold import warn_of_untellable


class StandIn:
    """Tells those targets for alerts alone that need no program of this host."""

    def __init__(self, container: Container) -> None:
        """Take the targets that the container has."""
        self._container = container
        self._told = Subscribers()
        self.take(container.subscribers().current)

    def take(self, subscriptions: Subscriptions) -> None:
        """Tell from now on the targets of a file; those that this host cannot tell are logged."""
        asked = without_programs(subscriptions)
        lacking = warn_of_untellable(asked, self._container.settings())
        self._told.current = without(lacking, asked)

    async def run(self, ending: asyncio.Event) -> None:
        """Tell until the end is asked for."""
        telling = self._container.outbox_relay(
            subscribers=self._told, only_after=relay.STAND_IN_AFTER
        )
        await telling.run(ending)
