"""Schedules that are not claimed or planned: no scheduler is there, or those that are cannot."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import attrs

from cronhare.domain.nodes import NodeReport, present
from cronhare.domain.texts.moments import say_moment
from cronhare.ports.inspection import OVERDUE_AFTER, LastClaim, Late, Severity

from .finding import Finding, named

#: Where to look for the reason why a scheduler cannot claim a schedule, and what ends that.
LOOK_FOR_HELD = (
    "look for `schedule.held` and `schedule.refused` in the schedulers' logs: they say what is in "
    "the way. End the transaction that was left open; docs/operators.md says at `ledger.busy` how "
    "to find it"
)


@attrs.frozen
class Omission:
    """What was not done with a schedule, and what it was before that, in words."""

    was: str
    done: str


CLAIMED = Omission("due", "claimed")
PLANNED = Omission("written", "planned")


def judge_late(
    late: Sequence[Late],
    last: LastClaim | None,
    what: Omission,
    *,
    nodes: Sequence[NodeReport],
    now: datetime,
    start: str,
) -> Iterator[Finding]:
    """Tell schedules that schedulers cannot claim from schedulers that are not there.

    *late* are sorted by their time; *last* is the newest claim of any schedule: what was late by
    then was passed over. Without *nodes*, whether a scheduler is there is not known.
    """
    overdue = [each for each in late if now - each.since > OVERDUE_AFTER]
    unseen = [each for each in overdue if last is None or each.since > last.at]
    if unseen:
        schedulers = [node.name for node in present(nodes, now) if node.schedules]
        why, cure = _why_none(schedulers, start, known=bool(nodes))
        fact = f"{_told(unseen, what)}, nor is anything claimed since then: {why}"
        yield Finding(Severity.ERROR, "nodes", fact, cure)
    elif overdue:
        whose = "its" if len(overdue) == 1 else "their"
        yield Finding(
            Severity.ERROR,
            "schedules",
            f"{_told(overdue, what)}, though schedulers claim others (the last {last}): {whose} "
            "rows are held by another session, or refused",
            f"{LOOK_FOR_HELD}. If no scheduler runs any more, start {start}",
        )


def _why_none(schedulers: Sequence[str], start: str, *, known: bool) -> tuple[str, str]:
    """Say why nothing at all is claimed, and what to do."""
    if schedulers:
        there = f"{named(schedulers)} {'is' if len(schedulers) == 1 else 'are'} there"
        return f"{there}: another session holds all that is due, or it is refused", LOOK_FOR_HELD
    none = "no scheduler reports itself" if known else "no scheduler looks"
    cure = (
        f"start {start}; if one is running, its log says why it cannot. Of `schedule.held` end "
        "the transaction that was left open"
    )
    return f"{none}, or another session holds all that is due", cure


def _told(late: Sequence[Late], what: Omission) -> str:
    names, first = named([each.name for each in late]), say_moment(late[0].since)
    if len(late) == 1:
        return f"{names} was {what.was} at {first} and is not {what.done}"
    return f"{names} were {what.was}, the first at {first}, and are not {what.done}"
