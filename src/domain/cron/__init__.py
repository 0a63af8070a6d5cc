"""Cron text, and the instants at which it is due.

Five fields, names, lists, ranges, steps, `@daily` and its kin, `L LW nW d#k dL ?`. Clock changes
follow Debian's cron (see `timeline`). Start reading at `expression`.
"""

from .expression import CronExpression
from .text import CronExpressionError, CronFault, names_matter
from .timeline import (
    AS_CRON,
    ClockChanges,
    Fold,
    Gap,
    UnknownZone,
    clock_changes,
    find_zone,
    resolve_wall_time,
)

__all__ = [
    "AS_CRON",
    "ClockChanges",
    "CronExpression",
    "CronExpressionError",
    "CronFault",
    "Fold",
    "Gap",
    "UnknownZone",
    "clock_changes",
    "find_zone",
    "names_matter",
    "resolve_wall_time",
]
