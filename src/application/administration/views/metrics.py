"""What the ledger has to measure, as monitoring takes it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Self

import attrs

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.statistics import By, FailureCount
from cronhare.domain.texts.printable import printable
from cronhare.ports.records import QueueLoad, Unheard

#: The most series of a metric, and characters of a label's value: each series costs whoever keeps
#: it for months.
MOST_SERIES: Final = 1_000
LONGEST_LABEL: Final = 255

#: The label of what has no series of its own.
OTHERS: Final = "(others)"


@attrs.frozen(kw_only=True)
class MetricsView:
    """What is measured at one moment.

    *dead_letters* counts by queue and job what ever failed for good, as long as the archive has it;
    *depth* what of it is unresolved. *unfinished* counts executions by queue and state, *unheard*
    events by topic that were completed though nobody listened.
    """

    dead_letters: Mapping[tuple[str, str], int]
    depth: int
    unfinished: Mapping[tuple[str, str], int]
    unheard: Mapping[tuple[str], int]

    @classmethod
    def of(
        cls,
        failures: Sequence[FailureCount],
        *,
        total: int,
        depth: int,
        loads: Sequence[QueueLoad],
        unheard: Sequence[Unheard] = (),
    ) -> Self:
        """Bound what was counted; of a *total* of failures the largest groups are given."""
        jobs = Counter[tuple[str, str]]()
        for each in failures:
            jobs[_label(each.group[By.QUEUE]), _label(each.group[By.TASK])] += each.failures
        if (rest := total - jobs.total()) > 0:
            jobs[OTHERS, OTHERS] += rest
        unfinished = Counter[tuple[str, str]]()
        for load in sorted(loads, key=lambda one: -one.executions):
            place = (_label(load.queue), State(load.state).value)
            known = place in unfinished or len(unfinished) < MOST_SERIES
            unfinished[place if known else (OTHERS, place[1])] += load.executions
        topics = Counter[tuple[str]]()
        for event in unheard:
            topics[(_label(event.topic),)] += event.count
        return cls(dead_letters=jobs, depth=depth, unfinished=unfinished, unheard=topics)


def _label(text: str) -> str:
    return printable(text[:LONGEST_LABEL], keep="")[:LONGEST_LABEL]
