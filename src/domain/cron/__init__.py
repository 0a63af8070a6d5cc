"""Cron text, and the instants at which it is due.

Five fields, names, lists, ranges, steps, `@daily` and its kin, `L LW nW d#k dL ?`. Clock changes
follow Debian's cron (see `timeline`). Start reading at `expression`.
"""

from .clock_changes import AS_CRON, ClockChanges, Fold, Gap, clock_changes
from .clock_effects import ClockEffect, EffectKind, clock_effects
from .errors import CronExpressionError, CronFault
from .expression import CronExpression
from .hashed import names_matter
from .wall import MissingWallTime, resolve_wall_time
from .zones import UnknownZone, find_zone

__all__ = [
    "AS_CRON",
    "ClockChanges",
    "ClockEffect",
    "CronExpression",
    "CronExpressionError",
    "CronFault",
    "EffectKind",
    "Fold",
    "Gap",
    "MissingWallTime",
    "UnknownZone",
    "clock_changes",
    "clock_effects",
    "find_zone",
    "names_matter",
    "resolve_wall_time",
]
