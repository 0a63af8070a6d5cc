"""Due instants to come, as a table: for `next` and `schedules show`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cronhare.application.reports.clock_effects import EffectKind
from cronhare.domain.texts.moments import say_due

from .output import table

if TYPE_CHECKING:
    from cronhare.application.administration.views.schedules import DueView

#: In few words, for a line of 80 letters.
_SHORT: Final = {
    EffectKind.MOVED: "missing: moved",
    EffectKind.SKIPPED: "missing: skipped",
    EffectKind.FIRST_PASS: "twice: the first",
    EffectKind.SECOND_PASS: "twice: the second",
}


def show_due(found: Sequence["DueView"], timezone: str) -> None:
    """Print when they are, in UTC and in *timezone*, what the clock does, and which do not run."""
    columns = [("UTC", _utc), (timezone, _local)]
    if any(due.clock for due in found):
        columns.append(("CLOCK", _clock))
    if any(due.why_not for due in found):
        columns.append(("SKIPPED", lambda due: due.why_not or ""))
    rows = [[show(due) for _, show in columns] for due in found]
    table(*(name for name, _ in columns), rows=rows, empty="")


def _utc(due: "DueView") -> str:
    return say_due(due.utc) if due.runs else "-"


def _local(due: "DueView") -> str:
    seconds = ":%S" if due.local.second else ""
    return due.local.strftime(f"%a %Y-%m-%d %H:%M{seconds} %Z (%z)")


def _clock(due: "DueView") -> str:
    return ", ".join(f"{effect.meant[-5:]} {_SHORT[effect.kind]}" for effect in due.clock)
