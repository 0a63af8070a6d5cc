"""What processes that live long import before they begin, though they need it later.

An upgrade replaces the files below a running process, and what it imported after that would be of
another release than the rest of it, or gone. So each of its modules is imported at the top of those
that use it, or here: in a function for the sake of commands that end soon. The libraries that read
calendars alone may come later, if a jobs file names its first calendar: they weigh 3 MB.
"""

import email.utils  # noqa: F401 - somebody's Retry-After is a date
import encodings.idna  # noqa: F401 - a host's name is looked up

import croniter  # noqa: F401 - the first expression with a range is perhaps planned in a month

# What lists of a ledger do without.
import cronhare.adapters.sql.claims.plans
import cronhare.adapters.sql.limits
import cronhare.adapters.sql.records.retention  # noqa: F401

from .. import json_text, parts, rabbitmq  # noqa: F401
from ..settings.settings import Settings


def preload(settings: Settings) -> None:
    """Import what this process may need later."""
    parts.preload()
    if settings.broker_kind == "amqp":
        rabbitmq.preload()
