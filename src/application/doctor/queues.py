"""Exchanges, queues and delay lanes as they are, against those that the topology describes."""

from collections.abc import Iterator, Sequence

from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.texts.words import counted, plural
from cronhare.domain.topology import (
    LANE_UNIT,
    QUARANTINE_QUEUE,
    RETRY_QUEUE,
    WAITING_QUEUE,
    lane_queue,
)
from cronhare.ports.inspection import (
    NAMES_TOLD,
    BrokerFacts,
    Fit,
    InMemory,
    Kind,
    LaneState,
    ScheduleFacts,
    Thing,
    Unreachable,
)

from ..starting import serve
from .finding import NotSeenError, Rules, Said, Seen, error, named, note, ok, warning
from .servers import BROKER, cure_of
from .work import count_of, named_of

QUEUES, LANES = Rules(), Rules()


@QUEUES.rule("queues")
def as_declared(seen: Seen) -> Said:
    fitting = [thing for thing in seen.broker_facts.things if thing.fit is Fit.FITS]
    if fitting:
        queues = sum(thing.kind is Kind.QUEUE for thing in fitting)
        shown = f"{counted(queues, 'queue')} and {counted(len(fitting) - queues, 'exchange')}"
        yield ok(f"{shown} as declared: type, arguments, dead-letter roads, delivery limits")


def _missing(seen: Seen) -> Sequence[str]:
    return [thing.name for thing in seen.broker_facts.things if thing.fit is Fit.MISSING]


@QUEUES.rule("queues")
def missing(seen: Seen) -> Said:
    if names := [name for name in _missing(seen) if name not in seen.others]:
        cure = "start a scheduler or a worker: it declares them"
        yield warning(f"Not there yet: {named(names)}", cure)


@QUEUES.rule("queues")
def missing_as_nobody_serves_it(seen: Seen) -> Said:
    """A process declares the queues that it is to serve, and no other."""
    names = [name for name in _missing(seen) if name in seen.others]
    if not names:
        return
    on = [each for name in names for each in seen.others[name]]
    # A schedule that stays alive names no queue: its own is called as it is.
    named_by = [each for name in names if not is_standalone(name) for each in seen.others[name]]
    cancel = "and cancel what waits there: `cronhare executions cancel --schedule NAME`"
    wrong = f". If the name is wrong, correct `queue` of {_whose(named_by)}, {cancel}"
    yield warning(
        f"Not there, for no process that serves it was started: {named(names)}, of {_whose(on)}",
        f"{serve(names, seen.options)}: who serves it declares it{wrong if named_by else ''}",
    )


def _whose(schedules: Sequence[ScheduleFacts]) -> str:
    return f"{plural(count_of(schedules), 'schedule')} {named_of(schedules)}"


#: What makes the keeping of a promise slower or dearer; another argument breaks one. The TTL is
#: of the retry queue, where it is a setting.
_HARMLESS = {
    "x-queue-type",
    "x-delivery-limit",
    "x-message-deduplication",
    "x-dead-letter-strategy",
    "x-overflow",
}


@QUEUES.rule("queues")
def different(seen: Seen) -> Said:
    for thing in seen.broker_facts.things:
        if (difference := thing.difference) is None:
            continue
        what = f"{thing.kind.capitalize()} {thing.name}: {difference}. It is used as it is"
        if thing.kind is Kind.EXCHANGE:
            cure = f"stop what publishes, delete the exchange {thing.name}"
            anew = "then start a scheduler or worker, which declares it and its bindings anew"
            yield error(what, f"{cure}, {anew}")
            continue
        is_delay = difference.argument == "x-message-ttl" and thing.name == RETRY_QUEUE
        setting = ""
        if is_delay and difference.found:
            setting = f"set CRON_RETRY_DELAY_MS={difference.found}; or: "
        elif difference.argument == "x-queue-type":
            setting = f"set CRON_QUEUE_TYPE={difference.found or 'classic'}; or: "
        told = warning if is_delay or difference.argument in _HARMLESS else error
        yield told(
            what,
            f"{setting}let it run empty, stop what consumes it, "
            f"{seen.broker_facts.guide.delete(thing.name)}, then start a scheduler or worker, "
            "which declares it anew",
        )


def _kept(seen: Seen, queue: str) -> Iterator[tuple[str, Thing]]:
    for thing in seen.broker_facts.things:
        if thing.name == queue and thing.messages:
            yield f"{counted(thing.messages, 'message')} in {queue}", thing


@QUEUES.rule("queues")
def messages_that_rest(seen: Seen) -> Said:
    for found, thing in _kept(seen, WAITING_QUEUE):
        what = f"{found}: of others, and not to be taken over for now"
        if thing.consumers:
            yield warning(
                what,
                "end the transaction that was left open: workers name it as `attempt.put-off`; or, "
                "where they say `publish.returned`, serve the queue that the messages wait for",
            )
        else:
            cure = "nobody brings them back: start a worker of this version or a later one"
            yield error(what, cure)


@QUEUES.rule("queues")
def quarantined_messages(seen: Seen) -> Said:
    """A message stays when its run is resolved: only more of them than runs mean anything."""
    for found, thing in _kept(seen, QUARANTINE_QUEUE):
        if thing.messages > seen.activity.quarantined.of_late:
            yield warning(
                f"{found}, some of no run: unreadable, or without a home",
                "each message's headers say its reason. No replay needs them; once they are read: "
                f"{seen.broker_facts.guide.purge(QUARANTINE_QUEUE)}",
            )


def _task_queues(seen: Seen) -> Sequence[Thing]:
    things = seen.broker_facts.things
    return [
        each for each in things if each.name in seen.task_queues and each.fit is not Fit.MISSING
    ]


@QUEUES.rule("queues")
def consumed(seen: Seen) -> Said:
    for each in _task_queues(seen):
        if each.consumers:
            shown, waiting = counted(each.consumers, "consumer"), counted(each.messages, "message")
            yield ok(f"{each.name}: {shown}, {waiting} to be taken")


@QUEUES.rule("queues")
def not_consumed(seen: Seen) -> Said:
    idle = [each for each in _task_queues(seen) if not each.consumers]
    for is_full, told in ((True, error), (False, note)):
        if found := [each for each in idle if bool(each.messages) is is_full]:
            names = [each.name for each in found]
            has = "has" if len(found) == 1 else "have"
            waiting = counted(sum(each.messages for each in found), "message")
            what = f"{named(names)} {has} no consumer, and {waiting} to be taken"
            yield told(what, f"start a worker: {serve(names, seen.options)}")


# Lanes: what is cut behind one of them is cut for all that come before


def _lanes(seen: Seen, state: LaneState) -> list[int]:
    if seen.lanes is None or isinstance(seen.lanes, InMemory | Unreachable):
        raise NotSeenError
    return sorted(report.lane for report in seen.lanes if report.state is state)


def _names(lanes: Sequence[int]) -> str:
    in_a_row = lanes[-1] - lanes[0] == len(lanes) - 1
    if in_a_row and len(lanes) > NAMES_TOLD:
        return f"{lane_queue(lanes[0])} to .{lanes[-1]:02}"
    return named([lane_queue(lane) for lane in lanes])


@LANES.rule("broker")
def not_probed(seen: Seen) -> Said:
    if isinstance(lanes := seen.lanes, Unreachable):
        yield error(f"It cannot be used: {lanes.said}", cure_of(BROKER, lanes.cause, lanes.hint))


@LANES.rule("lanes")
def broken_lanes(seen: Seen) -> Said:
    if broken := _lanes(seen, LaneState.BROKEN):
        guide = seen.broker.guide if isinstance(seen.broker, BrokerFacts) else None
        look = f": {guide.list_bindings}, {guide.list_policies}" if guide else ""
        yield error(
            f"What enters {_names(broken)} does not come out. No retry is lost, but those that "
            "need one of them come late, sent again from the ledger",
            "start a scheduler or worker anew: it declares what is missing, bindings included; "
            "then `cronhare doctor --probe`. If that does not mend it, see where "
            f"{lane_queue(broken[0])} leads{look}",
        )


@LANES.rule("lanes")
def busy_lanes(seen: Seen) -> Said:
    if busy := _lanes(seen, LaneState.BUSY):
        longest = (LANE_UNIT * 2 ** busy[-1]).total_seconds()
        yield note(
            f"Messages wait in {_names(busy)}, and a probe would have to wait behind them",
            f"probe again once they are gone, which is within {longest:,.1f} s",
        )


@LANES.rule("lanes")
def open_lanes(seen: Seen) -> Said:
    if not _lanes(seen, LaneState.BROKEN):
        yield ok(f"A probe came through each of {len(_lanes(seen, LaneState.OPEN))} lanes")
