"""Why a target of a jobs file is not told of an alert."""

from collections.abc import Collection, Mapping

from .notify import EventKind, Subscriptions, Target


def why_untold(
    subscriptions: Subscriptions, rule: str, schedule: str | None, task: str | None
) -> Mapping[str, str]:
    """Say of each target of a file why it was not told of an alert, if it was not.

    An alert of no *schedule* is of the whole ledger; *task* names that of a schedule of no file.
    """
    told = subscriptions.told_of_alert(EventKind.ALERT, rule, schedule, task)
    names = {each.name for each in told}
    return {
        name: _why(target, rule, schedule, names) for name, target in subscriptions.targets.items()
    }


def _why(target: Target, rule: str, schedule: str | None, told: Collection[str]) -> str:
    if EventKind.ALERT not in target.events:
        return f"its events have no {EventKind.ALERT}"
    if rule not in target.alerts:
        return f"its alerts leave out {rule}"
    if target.name not in told:
        return f"{schedule}, or its task, names others in its notify"
    return "no process that tells has found the alert yet: a worker looks once a minute"
