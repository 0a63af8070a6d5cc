"""Targets of a jobs file that cannot be told, or were not."""

from collections.abc import Iterator, Sequence
from shlex import quote

from cronhare.domain.events.targets import ByEmail, Subscriptions, untellable
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import NAMES_TOLD, Severity, UntoldTarget

from .finding import Finding

SUBJECT = "notify"

#: Characters of the reason why a target was not told.
LONGEST_REASON = 200


def judge_targets(subscriptions: Subscriptions, *, has_mail: bool) -> Iterator[Finding]:
    """Judge what a file's targets need of this shell; a worker's environment may have more."""
    for name, why in untellable(subscriptions, has_mail=has_mail).items():
        if isinstance(subscriptions.targets[name].means, ByEmail):
            severity, cure = Severity.WARNING, "set CRON_SMTP_URL=smtp://user:password@host:587"
        else:
            severity, cure = Severity.NOTE, "set it"
        yield Finding(
            severity,
            SUBJECT,
            f"notify.{name} cannot be told from here: {why}",
            f"{cure} where a worker or `cronhare up` runs; fine if it is set there",
        )


def judge_untold(untold: Sequence[UntoldTarget], subscriptions: Subscriptions) -> Iterator[Finding]:
    """Name targets that were given up; not those that the file at hand has no more."""
    there = [
        each
        for each in untold
        if each.source != subscriptions.source or subscriptions.target(each.name) is not None
    ]
    yield from map(_untold, there[:NAMES_TOLD])
    if rest := there[NAMES_TOLD:]:
        what = f"{counted(len(rest), 'other target')} were not told either"
        cure = "`cronhare events list --state given-up` has them"
        yield Finding(Severity.WARNING, SUBJECT, what, cure, stands_for=len(rest))


def _untold(target: UntoldTarget) -> Finding:
    why = f": {target.error[:LONGEST_REASON]}" if target.error else ""
    at = f", of the last one at {say_moment(target.last_at)}" if target.last_at else ""
    what = (
        f"notify.{shown(target.name)} of {shown(target.source)} was not told of "
        f"{counted(target.events, 'event')}{at}{why}"
    )
    cure = (
        f"mend that; `cronhare alerts test {quote(target.name)}` tries it at once. Of alerts that "
        "hold it is told anew within an hour or so; `cronhare events list --state given-up` has "
        "what it was not told of"
    )
    return Finding(Severity.WARNING, SUBJECT, what, cure)
