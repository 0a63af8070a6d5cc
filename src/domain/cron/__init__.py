"""Cron text, and the instants at which it is due.

Five fields, names, lists, ranges, steps, `@daily` and its kin, `L LW nW d#k dL ?`. Clock changes
follow Debian's cron (see `timeline`). Start reading at `expression`.
"""

from .clock_effects import ClockEffect, EffectKind, clock_effects
from .expression import CronExpression
from .text import CronExpressionError, CronFault, names_matter
from .timeline import AS_CRON, ClockChanges, Fold, Gap, clock_changes
from .zones import UnknownZone, find_zone, resolve_wall_time

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
    "UnknownZone",
    "clock_changes",
    "clock_effects",
    "find_zone",
    "names_matter",
    "resolve_wall_time",
]
