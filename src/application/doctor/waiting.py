"""Runs whose time has come and that no worker begins: an outage, and not a backlog."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta

from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.schedules.planning import FULL_COMPARISON
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import counted
from cronhare.domain.topology import is_a_queue
from cronhare.ports.inspection import InMemory, Severity, Unreachable, Waiting

from ..starting import have_up_serve, serve, start_up
from .finding import Finding, named

SUBJECT = "runs"


_OR = ". What is not wanted any more: `cronhare executions cancel ID`"


def judge_waiting(
    waiting: Sequence[Waiting],
    *,
    consumers: Mapping[str, int] | InMemory | Unreachable,
    at_work: bool = False,
    served: Collection[str] | None = None,
    jobs: str | None = None,
) -> Iterator[Finding]:
    """Tell an outage from a backlog.

    *consumers* are counted for each queue that is there, if the broker can. *at_work* says
    that some run is under way, on whatever queue. *served* are the queues that those who are there
    serve, None if nobody is or that is not known. *jobs* is the path of the workers' jobs file,
    where it is known.
    """
    broken = [each for each in waiting if not is_a_queue(each.queue)]
    yield from _broken(broken)
    sent = [each for each in waiting if each.sent and each not in broken]
    unsent = [each for each in waiting if not each.sent and each not in broken]
    match consumers:
        case InMemory():
            yield from _in_memory([*sent, *unsent], at_work=at_work, served=served, jobs=jobs)
        case Unreachable():
            yield from _unsent(unsent)
            yield from _unseen(sent)
        case _:
            homeless = [each for each in unsent if each.queue not in consumers]
            found = [*sent, *homeless]
            orphaned = [each for each in found if not consumers.get(each.queue)]
            yield from _orphaned(orphaned, jobs)
            yield from _unsent([each for each in unsent if each not in homeless])
            busy = [each for each in found if each not in orphaned]
            yield from _busy(busy, "start more workers, or raise CRON_CONCURRENCY")
    if not waiting:
        yield Finding(Severity.OK, SUBJECT, "None has waited for a worker for more than a minute")


def _in_memory(
    waiting: Sequence[Waiting],
    *,
    at_work: bool,
    served: Collection[str] | None,
    jobs: str | None,
) -> Iterator[Finding]:
    """One process serves all queues of its file: where it runs anything, all of them may wait."""
    if served is not None:
        yield from _passed_over([each for each in waiting if each.queue not in served])
        waiting = [each for each in waiting if each.queue in served]
    if not waiting:
        return
    if at_work:
        idle = [each for each in waiting if served is None and not each.running]
        unless = (
            f". If `cronhare up` does not serve {_queues(idle)}, {have_up_serve(_names(idle))}"
            f"{_let_go(idle)}"
            if idle
            else ""
        )
        yield from _busy(waiting, f"raise CRON_CONCURRENCY{unless}")
        return
    if served is not None:
        yield Finding(
            Severity.ERROR,
            SUBJECT,
            f"{_of(waiting)} in {_queues(waiting)}, and nothing runs, though `cronhare up` is "
            "there and serves it",
            "its log says what is in the way; `cronhare nodes list` shows whether it was drained, "
            f"or is cut off{_OR}",
        )
        return
    yield Finding(
        Severity.ERROR,
        SUBJECT,
        f"{_of(waiting)} in {_queues(waiting)}, and nothing runs: `cronhare up` has ended, or does "
        "not serve it",
        f"start `{start_up(jobs)}`; if it runs, {have_up_serve(_names(waiting))}{_OR}",
    )


def _passed_over(waiting: Sequence[Waiting]) -> Iterator[Finding]:
    """Tell what waits for a queue that none of those who are there serves."""
    if waiting:
        yield Finding(
            Severity.ERROR,
            SUBJECT,
            f"{_of(waiting)} in {_queues(waiting)}, and `cronhare up`, which is there, does not "
            "serve it",
            f"{have_up_serve(_names(waiting))}, and start `cronhare up` anew"
            f"{_let_go(waiting) or _OR}",
        )


def _broken(waiting: Sequence[Waiting]) -> Iterator[Finding]:
    if waiting:
        names = [echo(name) for name in _names(waiting)]
        yield Finding(
            Severity.ERROR,
            SUBJECT,
            f"{_of(waiting)} on what cannot be a queue: {named(names)}",
            "write a task queue's name into the column queue of those rows of SchedulerExecution",
        )


def _orphaned(waiting: Sequence[Waiting], jobs: str | None) -> Iterator[Finding]:
    if waiting:
        yield Finding(
            Severity.ERROR,
            SUBJECT,
            f"{_of(waiting)}, and nobody serves {_queues(waiting)}",
            f"start a worker for it: {serve(_names(waiting), jobs)}{_OR}",
        )


def _unsent(waiting: Sequence[Waiting]) -> Iterator[Finding]:
    if waiting:
        yield Finding(
            Severity.ERROR,
            SUBJECT,
            f"{_of(waiting)} to be handed to the broker, for {_queues(waiting)}: it is away, "
            "no scheduler runs, it has no such queue, or another session holds their rows",
            "start `cronhare scheduler` (or `cronhare up` with the jobs file of that queue); if "
            "one runs, its log says what keeps it from the broker, and if nothing does, "
            "docs/operators.md says at `ledger.busy` how to find who holds rows. "
            f"They are sent as soon as it can{_OR}",
        )


def _busy(waiting: Sequence[Waiting], cure: str) -> Iterator[Finding]:
    if waiting:
        what = f"{_of(waiting)} for a worker that is free, or are put off by all"
        held = (
            "a row that another session holds, or that the ledger refuses, is told by the "
            "workers' logs as `attempt.put-off`"
        )
        yield Finding(Severity.WARNING, SUBJECT, what, f"{cure}; {held}")


def _unseen(waiting: Sequence[Waiting]) -> Iterator[Finding]:
    if waiting:
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            f"{_of(waiting)} in {_queues(waiting)}; whether anybody serves it, only the broker "
            "can tell",
            "see to the broker, then run doctor once more",
        )


def _let_go(waiting: Sequence[Waiting]) -> str:
    """Say what becomes of runs whose schedules stay alive no more: their queues are served no more.

    That is a matter of moments, unless nobody was there when the schedule was edited.
    """
    if not any(map(is_standalone, _names(waiting))):
        return ""
    return (
        "; what is to stay alive no more, and has its task there, it cancels within "
        f"{FULL_COMPARISON // timedelta(minutes=1)} minutes{_OR}"
    )


def _names(waiting: Sequence[Waiting]) -> list[str]:
    return list(dict.fromkeys(each.queue for each in waiting))


def _queues(waiting: Sequence[Waiting]) -> str:
    return named(_names(waiting))


def _of(waiting: Sequence[Waiting]) -> str:
    runs, since = sum(each.runs for each in waiting), min(each.since for each in waiting)
    verb = "waits" if runs == 1 else "wait"
    return f"{counted(runs, 'run')} {verb} since {say_moment(since)}"
