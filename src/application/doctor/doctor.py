"""Look at everything, and say what is wrong and how to mend it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from cronhare.application.doctor.broker import judge_broker
from cronhare.application.doctor.failing import judge_breakers, judge_budgets, judge_failures
from cronhare.application.doctor.finding import Finding
from cronhare.application.doctor.identity import judge_sources
from cronhare.application.doctor.lanes import judge_lanes, judge_unseen
from cronhare.application.doctor.ledger import judge_activity, judge_ledger, judge_unserved
from cronhare.application.doctor.nodes import judge_awaited, judge_files
from cronhare.application.doctor.quarantine import judge_quarantine
from cronhare.application.doctor.queues import judge_things
from cronhare.application.doctor.servers import BROKER, DATABASE, judge_unreachable
from cronhare.application.doctor.targets import judge_untold
from cronhare.application.doctor.waiting import judge_waiting
from cronhare.application.doctor.work import judge_rows, judge_tasks, judge_timeouts
from cronhare.domain.events.targets import Subscriptions
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.domain.schedules.task import Task
from cronhare.domain.topology import MAIN_QUEUE, QUARANTINE_QUEUE, topology
from cronhare.ports.inspection import (
    BrokerAnswer,
    BrokerFacts,
    BrokerGuide,
    BrokerInspectionPort,
    Fit,
    InMemory,
    LaneReport,
    LedgerAnswer,
    LedgerFacts,
    LedgerInspectionPort,
    ScheduleFacts,
    Severity,
    Unreachable,
)

#: Those of no file.
NO_SUBSCRIPTIONS: Final = Subscriptions()


class Doctor:
    """Holds what the servers show against what we need. Changes nothing."""

    def __init__(self, *, ledger: LedgerInspectionPort, broker: BrokerInspectionPort) -> None:
        """Both may be away: that is a finding, too."""
        self._ledger = ledger
        self._broker = broker

    def examine(
        self,
        *,
        queues: Sequence[str],
        retry_delay: timedelta,
        tasks: Sequence[Task] | None,
        jobs: str | None = None,
        file: FileVersion | None = None,
        subscriptions: Subscriptions = NO_SUBSCRIPTIONS,
        probe: bool = False,
    ) -> Iterator[Finding]:
        """Give the findings, the ledger's first.

        *queues* are those that this process would work on; the schedules name others. *tasks* and
        *jobs*, their file's path, are None if none was given; the tasks alone if it is at fault,
        which is told elsewhere. *file* is its version, *subscriptions* are that file's. With
        *probe* the delay lanes are tried.
        """
        ledger = self._ledger.inspect()
        schedules = ledger.schedules if isinstance(ledger, LedgerFacts) else None
        yield from _of_ledger(ledger)
        if tasks is not None or jobs is None:
            yield from judge_tasks(schedules, tasks)
        yield from judge_sources(schedules or (), tasks)
        ours, asked_for = dict.fromkeys((MAIN_QUEUE, *queues)), _queues_asked_for(ledger)
        others = {queue: names for queue, names in asked_for.items() if queue not in ours}
        task_queues = (*ours, *others)
        broker = self._broker.inspect(topology(retry_delay=retry_delay, queues=task_queues))
        if file is not None and isinstance(ledger, LedgerFacts) and ledger.activity is not None:
            activity = ledger.activity
            yield from judge_files(activity.nodes, file, now=activity.now)
        yield from _of_runs(ledger, broker, asked_for, jobs)
        yield from _of_broker(broker, task_queues, others, jobs)
        yield from _of_failures(ledger, file)
        if isinstance(ledger, LedgerFacts) and ledger.activity is not None:
            yield from judge_untold(ledger.activity.untold, subscriptions)
        yield from _of_quarantine(ledger, broker)
        if isinstance(broker, BrokerFacts):
            yield judge_unseen(broker.guide, probed=probe)
            yield from judge_timeouts(schedules, tasks, broker.guide)
            if probe:
                yield from _of_lanes(self._broker.probe(), broker.guide)


def _of_ledger(facts: LedgerAnswer) -> Iterator[Finding]:
    match facts:
        case Unreachable():
            yield judge_unreachable(DATABASE, facts)
        case LedgerFacts():
            yield from judge_ledger(facts)
            if facts.schedules is not None:
                yield from judge_rows(facts.schedules, unread=facts.unread_schedules)


def _of_runs(
    ledger: LedgerAnswer, broker: BrokerAnswer, queues: Iterable[str], jobs: str | None
) -> Iterator[Finding]:
    if not isinstance(ledger, LedgerFacts) or ledger.activity is None:
        return
    activity, in_memory = ledger.activity, isinstance(broker, InMemory)
    yield from judge_activity(activity, in_memory=in_memory, jobs=jobs)
    if not isinstance(broker, BrokerFacts):  # which would show who consumes
        waiting = {each.queue for each in activity.waiting}
        idle = [queue for queue in queues if queue not in waiting]
        yield from judge_unserved(idle, activity, in_memory=in_memory, jobs=jobs)
    yield from judge_waiting(
        activity.waiting,
        consumers=_consumers(broker),
        at_work=activity.is_at_work,
        served=activity.named,
        jobs=jobs,
    )


def _consumers(broker: BrokerAnswer) -> Mapping[str, int] | InMemory | Unreachable:
    if not isinstance(broker, BrokerFacts):
        return broker
    return {thing.name: thing.consumers for thing in broker.things if thing.fit is not Fit.MISSING}


def _queues_asked_for(ledger: LedgerAnswer) -> Mapping[str, Sequence[ScheduleFacts]]:
    """Name the queues of schedules, each with these; not of what is disabled and has run out."""
    if not isinstance(ledger, LedgerFacts):
        return {}
    in_use = ledger.activity.queues if ledger.activity is not None else ()
    found = dict[str, list[ScheduleFacts]]()
    for schedule in ledger.schedules or ():
        if schedule.queue is not None and (schedule.enabled or schedule.queue in in_use):
            found.setdefault(schedule.queue, []).append(schedule)
    return found


def _of_broker(
    facts: BrokerAnswer,
    task_queues: Sequence[str],
    others: Mapping[str, Sequence[ScheduleFacts]],
    jobs: str | None,
) -> Iterator[Finding]:
    match facts:
        case Unreachable():
            yield judge_unreachable(BROKER, facts)
        case InMemory():
            what = "In memory, inside of `cronhare up`: there is nothing to look at"
            yield Finding(Severity.OK, BROKER.subject, what)
        case BrokerFacts():
            yield from judge_broker(facts)
            yield from judge_things(
                facts.things, facts.guide, task_queues=task_queues, others=others, jobs=jobs
            )


def _of_failures(ledger: LedgerAnswer, file: FileVersion | None) -> Iterator[Finding]:
    activity = ledger.activity if isinstance(ledger, LedgerFacts) else None
    if activity is not None:
        yield from judge_failures(activity.failures)
        yield from judge_awaited(activity.awaited, activity.nodes, file, now=activity.now)
        yield from judge_breakers(activity.breakers, now=activity.now)
        yield from judge_budgets(activity.budgets, now=activity.now)


def _of_quarantine(ledger: LedgerAnswer, broker: BrokerAnswer) -> Iterator[Finding]:
    activity = ledger.activity if isinstance(ledger, LedgerFacts) else None
    runs = None if activity is None else activity.quarantined
    messages, guide = 0, None
    if isinstance(broker, BrokerFacts):
        kept = (thing.messages for thing in broker.things if thing.name == QUARANTINE_QUEUE)
        messages, guide = sum(kept), broker.guide
    yield from judge_quarantine(runs, messages, guide)


def _of_lanes(
    reports: Sequence[LaneReport] | InMemory | Unreachable, guide: BrokerGuide
) -> Iterator[Finding]:
    match reports:
        case Unreachable():
            yield judge_unreachable(BROKER, reports)
        case InMemory():
            pass
        case _:
            yield from judge_lanes(reports, guide)
