"""What a kind of broker must be, and what a person types to look at one: its vendor's words."""

from collections.abc import Callable
from datetime import timedelta

import attrs


@attrs.frozen(kw_only=True)
class BrokerGuide:
    """What an adapter knows of its kind of broker; the commands are whole, in backticks.

    Versions from *oldest* up to *first_untried* were tried. *lack* is what an older one cannot, and
    *without* the setting that needs it not. *busy* says where to look at one that does not answer,
    *alarm* how one with an alarm is mended. *consumer_timeout* is by default how long a delivery
    may stay unsettled, *longer* how that is raised. *purge* empties a queue, *delete* removes it.
    """

    product: str
    oldest: tuple[int, ...]
    first_untried: tuple[int, ...]
    lack: str
    without: str
    busy: str
    alarm: str
    consumer_timeout: timedelta
    longer: str
    list_bindings: str
    list_policies: str
    count_messages: str
    list_arguments: str
    list_permissions: str
    purge: Callable[[str], str]
    delete: Callable[[str], str]
