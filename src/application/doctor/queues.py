"""Exchanges and queues as they are, against those that the topology describes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.texts.words import counted, plural
from cronhare.domain.topology import FAILED_QUEUE, RETRY_QUEUE, WAITING_QUEUE
from cronhare.ports.inspection import BrokerGuide, Difference, Fit, Kind, Severity, Thing

from ..starting import serve
from .finding import Finding, named

if TYPE_CHECKING:
    from cronhare.ports.inspection import ScheduleFacts


SUBJECT = "queues"


def judge_things(
    things: Sequence[Thing],
    guide: BrokerGuide,
    *,
    task_queues: Collection[str],
    others: "Mapping[str, Sequence[ScheduleFacts]] | None" = None,
    jobs: str | None = None,
) -> Iterator[Finding]:
    """Judge all of the topology. From the *task_queues* workers take their tasks.

    *others* are those of them that no process with these settings serves, each with the schedules
    that name it. *jobs* is the path of the workers' jobs file, where it is known.
    """
    others = others or {}
    fitting = [thing for thing in things if thing.fit is Fit.FITS]
    queues = sum(thing.kind is Kind.QUEUE for thing in fitting)
    if fitting:
        shown = f"{counted(queues, 'queue')} and {counted(len(fitting) - queues, 'exchange')}"
        what = f"{shown} as declared: type, arguments, dead-letter roads, delivery limits"
        yield Finding(Severity.OK, SUBJECT, what)
    missing = [thing.name for thing in things if thing.fit is Fit.MISSING]
    yield from _missing([name for name in missing if name not in others])
    yield from _missing_others({name: others[name] for name in missing if name in others}, jobs)
    yield from _hidden([thing.name for thing in things if thing.fit is Fit.HIDDEN], guide)
    for thing in things:
        if thing.difference is not None:
            yield _different(thing, thing.difference, guide)
    for thing in things:
        yield from _kept(thing)
    served = [each for each in things if each.name in task_queues and each.fit is not Fit.MISSING]
    yield from _work(served, jobs)


def _missing(names: Sequence[str]) -> Iterator[Finding]:
    if names:
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            f"Not there yet: {named(names)}",
            "start a scheduler or a worker: it declares them",
        )


def _missing_others(
    queues: "Mapping[str, Sequence[ScheduleFacts]]", jobs: str | None
) -> Iterator[Finding]:
    """A process declares the queues that it is to serve, and no other."""
    if queues:
        all_of_them = [each for alike in queues.values() for each in alike]
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            "Not there, for no process that serves it was started: "
            f"{named([*queues])}, of {_whose(all_of_them)}",
            f"{serve(queues, jobs)}: who serves it declares it{_if_misspelt(queues)}",
        )


def _if_misspelt(queues: "Mapping[str, Sequence[ScheduleFacts]]") -> str:
    """A schedule that stays alive names no queue: its own is called as it is."""
    named_by = [each for name in queues if not is_standalone(name) for each in queues[name]]
    if not named_by:
        return ""
    return f". If the name is wrong, correct `queue` of {_whose(named_by)}"


def _whose(schedules: "Sequence[ScheduleFacts]") -> str:
    from .work import count_of, named_of  # noqa: PLC0415 - a list of queues does without

    return f"{plural(count_of(schedules), 'schedule')} {named_of(schedules)}"


def _hidden(names: Sequence[str], guide: BrokerGuide) -> Iterator[Finding]:
    if names:
        yield Finding(
            Severity.NOTE,
            SUBJECT,
            f"This user may not see the arguments of {named(names)}",
            "to compare them, run doctor as a user who may configure these names "
            f"({guide.list_permissions}), or look at {guide.list_arguments}",
        )


def _different(thing: Thing, difference: Difference, guide: BrokerGuide) -> Finding:
    return Finding(
        Severity.ERROR if _is_harmful(thing, difference) else Severity.WARNING,
        SUBJECT,
        f"{thing.kind.capitalize()} {thing.name}: {difference}. It is used as it is",
        _cure(thing, difference, guide),
    )


def _is_harmful(thing: Thing, difference: Difference) -> bool:
    """Tell what breaks a promise from what only makes its keeping slower or dearer."""
    if thing.kind is Kind.EXCHANGE:
        return True
    if difference.argument == "x-message-ttl":
        return thing.name != RETRY_QUEUE
    return difference.argument not in {
        "x-queue-type",
        "x-delivery-limit",
        "x-message-deduplication",
        "x-dead-letter-strategy",
        "x-overflow",
    }


def _cure(thing: Thing, difference: Difference, guide: BrokerGuide) -> str:
    if thing.kind is Kind.EXCHANGE:
        return (
            f"stop what publishes, delete the exchange {thing.name}, then start a scheduler or "
            "worker, which declares it and its bindings anew"
        )
    anew = (
        "let it run empty, stop what consumes it, "
        f"{guide.delete(thing.name)}, "
        "then start a scheduler or worker, which declares it anew"
    )
    match difference.argument, difference.found:
        case "x-message-ttl", str(found) if thing.name == RETRY_QUEUE:
            return f"set CRON_RETRY_DELAY_MS={found}; or: {anew}"
        case "x-queue-type", None | "classic":
            return f"set CRON_QUEUE_TYPE=classic; or: {anew}"
        case "x-queue-type", "quorum":
            return f"set CRON_QUEUE_TYPE=quorum; or: {anew}"
    return anew


def _kept(thing: Thing) -> Iterator[Finding]:
    kept = counted(thing.messages, "message")
    if thing.name == FAILED_QUEUE and thing.messages:
        what = f"{kept} in {FAILED_QUEUE}: tasks that failed for good"
        yield Finding(Severity.NOTE, SUBJECT, what, "look at them: `cronhare failed list`")
    if thing.name == WAITING_QUEUE and thing.messages:
        yield _waiting(kept, is_served=thing.consumers > 0)


def _waiting(kept: str, *, is_served: bool) -> Finding:
    what = f"{kept} in {WAITING_QUEUE}: of others, and not to be taken over for now"
    if not is_served:
        cure = "nobody brings them back: start a worker of this version or a later one"
        return Finding(Severity.ERROR, SUBJECT, what, cure)
    cure = (
        "end the transaction that was left open: workers name it as `attempt.put-off`; or, where "
        "they say `publish.returned`, serve the queue that the messages wait for"
    )
    return Finding(Severity.WARNING, SUBJECT, what, cure)


def _work(queues: Sequence[Thing], jobs: str | None) -> Iterator[Finding]:
    for each in queues:
        if each.consumers:
            waiting, shown = counted(each.messages, "message"), counted(each.consumers, "consumer")
            what = f"{each.name}: {shown}, {waiting} to be taken"
            yield Finding(Severity.OK, SUBJECT, what)
    without = [each for each in queues if not each.consumers]
    if full := [each for each in without if each.messages]:
        yield _unconsumed(full, Severity.ERROR, jobs)
    if empty := [each for each in without if not each.messages]:
        yield _unconsumed(empty, Severity.NOTE, jobs)


def _unconsumed(queues: Sequence[Thing], severity: Severity, jobs: str | None) -> Finding:
    names = [each.name for each in queues]
    has = "has" if len(queues) == 1 else "have"
    waiting = counted(sum(each.messages for each in queues), "message")
    return Finding(
        severity,
        SUBJECT,
        f"{named(names)} {has} no consumer, and {waiting} to be taken",
        f"start a worker: {serve(names, jobs)}",
    )
