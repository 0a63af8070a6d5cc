"""Runs that are due and that nobody begins: an outage, and not a backlog."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import attrs

from .finding import Finding, Severity, counted, named

SUBJECT = "runs"

#: A worker begins within a second; what waits so long waits for somebody who is not there.
OVERDUE_AFTER = timedelta(minutes=1)


@attrs.frozen(kw_only=True)
class Waiting:
    """Runs of one queue that are due and not begun, the first of them *since* when.

    *sent* says that the broker has them. *running* counts those of this queue that are under way.
    """

    queue: str
    runs: int
    since: datetime
    sent: bool = True
    running: int = 0


def judge_waiting(
    waiting: Sequence[Waiting], *, now: datetime, consumers: Mapping[str, int] | None
) -> Iterator[Finding]:
    """Tell an outage from a backlog. *consumers* by queue is None where nobody can tell them."""
    late = [each for each in waiting if now - each.since > OVERDUE_AFTER]
    unsent = [each for each in late if not each.sent]
    sent = [each for each in late if each.sent]
    orphaned = [each for each in sent if not _is_served(each, consumers)]
    if orphaned:
        yield _orphaned(orphaned)
    if unsent:
        yield Finding(
            Severity.ERROR,
            SUBJECT,
            f"{_of(unsent)} to be handed to the broker: it is away, or no scheduler runs",
            "start `cronhare scheduler` (or `cronhare up`); if one is running, its log says what "
            "keeps it from the broker. They are sent as soon as it can",
        )
    if busy := [each for each in sent if each not in orphaned]:
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            f"{_of(busy)} for a worker that is free",
            "start more workers, or raise CRON_CONCURRENCY",
        )
    if not late:
        yield Finding(Severity.OK, SUBJECT, "None has waited for a worker for more than a minute")


def _is_served(each: Waiting, consumers: Mapping[str, int] | None) -> bool:
    if consumers is not None:
        return consumers.get(each.queue, 0) > 0
    return each.running > 0


def _orphaned(waiting: Sequence[Waiting]) -> Finding:
    queues = list(dict.fromkeys(each.queue for each in waiting))
    return Finding(
        Severity.ERROR,
        SUBJECT,
        f"{_of(waiting)}, and nobody serves {named(queues)}",
        f"start a worker for it: `cronhare worker --queues {','.join(queues)}`; or add it to "
        "CRON_QUEUES of one that runs. (`cronhare up` serves the queues of its own jobs file)",
    )


def _of(waiting: Sequence[Waiting]) -> str:
    runs, since = sum(each.runs for each in waiting), min(each.since for each in waiting)
    verb = "waits" if runs == 1 else "wait"
    return f"{counted(runs, 'run')} {verb} since {since:%Y-%m-%d %H:%M:%S}Z"
