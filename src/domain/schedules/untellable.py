"""Targets that a process cannot tell, for want of something that is not in the jobs file."""

from collections.abc import Collection, Mapping

import attrs

from .notify import ByApprise, ByCommand, ByEmail, ByListener, ByWebhook, Subscriptions, Target

#: Why no mail goes out.
NO_MAIL_SERVER = "CRON_SMTP_URL names no mail server"


def lacks(target: Target, *, has_mail: bool) -> str | None:
    """Say what a target cannot be told without here; None if there is all that it needs."""
    match target.means:
        case ByWebhook(lacks=str() as what) | ByApprise(lacks=str() as what):
            return what
        case ByEmail() if not has_mail:
            return NO_MAIL_SERVER
    return None


def untellable(subscriptions: Subscriptions, *, has_mail: bool) -> Mapping[str, str]:
    """Give the targets of a file that cannot be told here, with the reason of each."""
    found = {
        name: lacks(target, has_mail=has_mail) for name, target in subscriptions.targets.items()
    }
    return {name: why for name, why in found.items() if why is not None}


def without(names: Collection[str], subscriptions: Subscriptions) -> Subscriptions:
    """Leave out targets."""
    kept = {name: each for name, each in subscriptions.targets.items() if name not in names}
    return attrs.evolve(subscriptions, targets=kept)


def without_programs(subscriptions: Subscriptions) -> Subscriptions:
    """Keep the targets for alerts that ask for no program: a host without tasks' programs has them.

    What is for any other target is left to the workers.
    """
    kept = {
        each.name: each
        for each in subscriptions.alerted
        if not isinstance(each.means, ByCommand | ByListener)
    }
    return attrs.evolve(subscriptions, targets=kept, schedules={}, tasks={}, pings={})
