"""A finding, what it is judged from, and the table of rules that a judgement is.

A rule is a function about a subject: it looks at all that was asked, and yields what it finds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Self, TypeAlias

import attrs

from cronhare.domain.events.targets import Subscriptions
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.words import counted, listed
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.ports.inspection import (
    NAMES_TOLD,
    Activity,
    BrokerAnswer,
    BrokerFacts,
    InMemory,
    LaneAnswer,
    LedgerAnswer,
    LedgerFacts,
    ScheduleFacts,
    Severity,
)


@attrs.frozen
class Finding:
    """One thing that was looked at.

    *what* is a sentence without a full stop. *cure* says what to do, and is empty if nothing is.
    """

    severity: Severity
    subject: str
    what: str
    cure: str = ""


@attrs.frozen(kw_only=True)
class SettingsFacts:
    """The settings of this process: the ledger *on_one_file*, the broker *in_memory*.

    *deduplicates* and *quorum* are of task queues. *unknown* are the variables that mean nothing,
    each with the one that was probably meant, or None.
    """

    on_one_file: bool
    in_memory: bool
    lease: timedelta
    deduplicates: bool = False
    quorum: bool = True
    has_mail: bool = False
    unknown: Mapping[str, str | None] = attrs.field(factory=dict[str, str | None])


class NotSeenError(Exception):
    """A rule asked for what nobody could look at: it says nothing."""


@attrs.frozen(kw_only=True)
class Seen:
    """All that was asked, before any of it is judged. What is None was not asked.

    *queues* are those that this process would work on. *tasks* and *jobs*, the options that name
    what has them, are None if nothing was given; the tasks alone if it is at fault. *files* are the
    versions of jobs file and app, *subscriptions* those of each. *lanes* are the answers of probes.
    Properties raise `NotSeenError` where nobody could look.
    """

    settings: SettingsFacts | None = None
    ledger: LedgerAnswer | None = None
    broker: BrokerAnswer | None = None
    lanes: LaneAnswer | None = None
    queues: Sequence[str] = ()
    tasks: Sequence[Task] | None = None
    jobs: str | None = None
    files: Sequence[FileVersion] = ()
    subscriptions: Sequence[Subscriptions] = ()

    @property
    def ledger_facts(self) -> LedgerFacts:
        if not isinstance(self.ledger, LedgerFacts):
            raise NotSeenError
        return self.ledger

    @property
    def activity(self) -> Activity:
        if self.ledger_facts.activity is None:
            raise NotSeenError
        return self.ledger_facts.activity

    @property
    def now(self) -> datetime:
        return self.activity.now

    @property
    def options(self) -> str | None:
        """*jobs*, or what the ledger tells: with tasks' own schedules it is of an app."""
        names = (name for each in self.schedules or () for name in each.names)
        return self.jobs or ("--app MODULE:APP" if any(":" in name for name in names) else None)

    @property
    def schedules(self) -> Sequence[ScheduleFacts] | None:
        return self.ledger.schedules if isinstance(self.ledger, LedgerFacts) else None

    @property
    def broker_facts(self) -> BrokerFacts:
        if not isinstance(self.broker, BrokerFacts):
            raise NotSeenError
        return self.broker

    @property
    def in_memory(self) -> bool:
        return isinstance(self.broker, InMemory)

    @property
    def others(self) -> Mapping[str, Sequence[ScheduleFacts]]:
        ours = {MAIN_QUEUE, *self.queues}
        return {queue: on for queue, on in self.asked_for.items() if queue not in ours}

    @property
    def asked_for(self) -> Mapping[str, Sequence[ScheduleFacts]]:
        """The queues of schedules, each with these; not of what is disabled and has run out."""
        ledger = self.ledger if isinstance(self.ledger, LedgerFacts) else None
        in_use = ledger.activity.queues if ledger is not None and ledger.activity else ()
        found = dict[str, list[ScheduleFacts]]()
        for schedule in self.schedules or ():
            if schedule.queue is not None and (schedule.enabled or schedule.queue in in_use):
                found.setdefault(schedule.queue, []).append(schedule)
        return found

    @property
    def task_queues(self) -> Sequence[str]:
        return [*dict.fromkeys((MAIN_QUEUE, *self.queues)), *self.others]


#: What a rule yields: sentence and cure. Its subject is that of the rule.
ok = partial(Finding, Severity.OK, "")
note = partial(Finding, Severity.NOTE, "")
warning = partial(Finding, Severity.WARNING, "")
error = partial(Finding, Severity.ERROR, "")

Said: TypeAlias = Iterator[Finding]
Rule: TypeAlias = Callable[[Seen], Said]


class Rules:
    """A table of rules, in the order in which their findings are told."""

    def __init__(self) -> None:
        self._rules = list[tuple[str, Rule]]()

    def rule(self, subject: str) -> Callable[[Rule], Rule]:
        def add(rule: Rule) -> Rule:
            self._rules.append((subject, rule))
            return rule

        return add

    def judge(self, seen: Seen) -> Iterator[Finding]:
        """Give what the rules find; a rule is silent about what was not seen."""
        for subject, rule in self._rules:
            with suppress(NotSeenError):
                for found in rule(seen):
                    yield attrs.evolve(found, subject=subject)


def named(names: Sequence[str], *, total: int | None = None) -> str:
    return listed(names, most=NAMES_TOLD, total=total)


#: So many findings that are alike are told one by one; of more there are examples.
MOST_ALIKE = 2


def grouped(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Tell findings together that have subject, weight and cure in common, where they are many.

    >>> alike = [Finding(Severity.WARNING, "queues", f"{name} is full") for name in "abc"]
    >>> [each.what for each in grouped(alike)]
    ['3 alike: a is full; b is full; and 1 other']
    """
    alike = dict[tuple[Severity, str, str], list[Finding]]()
    for each in findings:
        alike.setdefault((each.severity, each.subject, each.cure), []).append(each)
    told = list[Finding]()
    for each in findings:
        found = alike[each.severity, each.subject, each.cure]
        if len(found) <= MOST_ALIKE:
            told.append(each)
        elif each is found[0]:
            examples = "; ".join(one.what for one in found[:MOST_ALIKE])
            others = counted(len(found) - MOST_ALIKE, "other")
            told.append(attrs.evolve(each, what=f"{len(found):,} alike: {examples}; and {others}"))
    return told


@attrs.frozen(kw_only=True)
class DiagnosisView:
    """All findings, and how many of them must be mended; *healthy* if none must."""

    healthy: bool
    errors: int
    warnings: int
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> Self:
        severities = [finding.severity for finding in findings]
        errors = severities.count(Severity.ERROR)
        return cls(
            healthy=not errors,
            errors=errors,
            warnings=severities.count(Severity.WARNING),
            findings=tuple(findings),
        )
