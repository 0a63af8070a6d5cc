"""Cron text, and the instants at which it is due.

Five fields, names, lists, ranges, steps, `@daily` and its kin, `L LW nW d#k dL ?`. Clock changes
follow Debian's cron (see `timeline`). Start reading at `expression`.
"""

from .errors import CronExpressionError, CronFault
from .expression import CronExpression
from .wall import MissingWallTime, resolve_wall_time
from .zones import UnknownZone, find_zone

__all__ = [
    "CronExpression",
    "CronExpressionError",
    "CronFault",
    "MissingWallTime",
    "UnknownZone",
    "find_zone",
    "resolve_wall_time",
]
