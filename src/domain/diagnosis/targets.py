"""Targets of a jobs file that cannot be told."""

from collections.abc import Iterator

from cronhare.domain.schedules.notify import ByEmail, Subscriptions
from cronhare.domain.schedules.untellable import untellable

from .finding import Finding, Severity


def judge_targets(subscriptions: Subscriptions, *, has_mail: bool) -> Iterator[Finding]:
    """Judge what a file's targets need of this shell; a worker's environment may have more."""
    for name, why in untellable(subscriptions, has_mail=has_mail).items():
        if isinstance(subscriptions.targets[name].means, ByEmail):
            severity, cure = Severity.WARNING, "set CRON_SMTP_URL=smtp://user:password@host:587"
        else:
            severity, cure = Severity.NOTE, "set it"
        yield Finding(
            severity,
            "notify",
            f"notify.{name} cannot be told from here: {why}",
            f"{cure} where a worker or `cronhare up` runs; fine if it is set there",
        )
