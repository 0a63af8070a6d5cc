"""Look at everything, and say what is wrong and how to mend it."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from cronhare.domain.diagnosis import (
    BROKER,
    CONSUMER_TIMEOUT,
    DATABASE,
    BrokerFacts,
    Finding,
    InMemory,
    LaneReport,
    LedgerFacts,
    Severity,
    Unreachable,
    judge_broker,
    judge_lanes,
    judge_ledger,
    judge_rows,
    judge_sources,
    judge_tasks,
    judge_things,
    judge_timeouts,
    judge_unreachable,
    judge_unseen,
    judge_waiting,
)
from cronhare.domain.task import Task
from cronhare.domain.topology import MAIN_QUEUE, topology
from cronhare.ports.inspection import BrokerInspectionPort, LedgerInspectionPort


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
        probe: bool = False,
    ) -> Iterator[Finding]:
        """Give the findings, the ledger's first.

        *queues* are those that this process would work on; the schedules name others. *tasks* is
        None if no jobs file was given. With *probe* the delay lanes are tried.
        """
        ledger = self._ledger.inspect()
        schedules = tuple(ledger.schedules) if isinstance(ledger, LedgerFacts) else ()
        yield from _of_ledger(ledger)
        yield from judge_tasks(schedules, tasks)
        yield from judge_sources(schedules, tasks)
        named = (schedule.queue for schedule in schedules if schedule.queue is not None)
        task_queues = tuple(dict.fromkeys((MAIN_QUEUE, *queues, *named)))
        broker = self._broker.inspect(topology(retry_delay=retry_delay, queues=task_queues))
        yield from _of_runs(ledger, broker)
        yield from _of_broker(broker, task_queues)
        if isinstance(broker, BrokerFacts):
            yield judge_unseen(probed=probe, vhost=broker.vhost)
            yield from judge_timeouts(schedules, tasks, patience=CONSUMER_TIMEOUT)
            if probe:
                yield from _of_lanes(self._broker.probe(), broker.vhost)


def _of_ledger(facts: LedgerFacts | InMemory | Unreachable) -> Iterator[Finding]:
    match facts:
        case Unreachable():
            yield judge_unreachable(DATABASE, facts)
        case InMemory():
            yield Finding(Severity.OK, DATABASE.subject, "In memory: there is nothing to look at")
        case LedgerFacts():
            yield from judge_ledger(facts)
            if facts.activity is not None:
                yield from judge_rows(facts.schedules)


def _of_runs(
    ledger: LedgerFacts | InMemory | Unreachable, broker: BrokerFacts | InMemory | Unreachable
) -> Iterator[Finding]:
    if not isinstance(ledger, LedgerFacts) or ledger.activity is None:
        return
    consumers = None
    if isinstance(broker, BrokerFacts):
        consumers = {thing.name: thing.consumers for thing in broker.things}
    activity = ledger.activity
    yield from judge_waiting(activity.waiting, now=activity.now, consumers=consumers)


def _of_broker(
    facts: BrokerFacts | InMemory | Unreachable, task_queues: Sequence[str]
) -> Iterator[Finding]:
    match facts:
        case Unreachable():
            yield judge_unreachable(BROKER, facts)
        case InMemory():
            what = "In memory, inside of `cronhare up`: there is nothing to look at"
            yield Finding(Severity.OK, BROKER.subject, what)
        case BrokerFacts():
            yield from judge_broker(facts)
            yield from judge_things(facts.things, task_queues=task_queues, vhost=facts.vhost)


def _of_lanes(
    reports: Sequence[LaneReport] | InMemory | Unreachable, vhost: str
) -> Iterator[Finding]:
    match reports:
        case Unreachable():
            yield judge_unreachable(BROKER, reports)
        case InMemory():
            pass
        case _:
            yield from judge_lanes(reports, vhost=vhost)
