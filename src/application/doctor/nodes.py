"""Who is there: whether what is due is claimed, which nodes report themselves, and how they are."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from cronhare.domain.nodes import WORRYING_SKEW, NodeReport, alive, read_node
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import NAMES_TOLD, OVERDUE_AFTER, BrokerFacts, Late

from ..starting import have_up_serve, serve, start_scheduling
from .finding import Rules, Said, Seen, error, named, note, ok, warning
from .servers import HARMLESS, SET_CLOCKS

NODES = Rules()

#: Where to look for the reason why a scheduler cannot claim a schedule, and what ends that.
LOOK_FOR_HELD = (
    "look for `schedule.held` and `schedule.refused` in the schedulers' logs: they say what is in "
    "the way. End the transaction that was left open: `ledger.busy` in "
    "docs/reference/log-actions.md says how to find it"
)


def _start(seen: Seen) -> str:
    return f"start {start_scheduling(seen.options, in_memory=seen.in_memory)}"


# What is due


def _said(late: Sequence[Late], was: str, done: str) -> str:
    names, first = named([each.name for each in late]), say_moment(late[0].since)
    if len(late) == 1:
        return f"{names} was {was} at {first} and is not {done}"
    return f"{names} were {was}, the first at {first}, and are not {done}"


def _late(seen: Seen) -> Iterator[tuple[Sequence[Late], str, str]]:
    activity = seen.activity
    kinds = (activity.overdue, "due", "claimed"), (activity.unplanned, "written", "planned")
    for late, was, done in kinds:
        if overdue := [each for each in late if activity.now - each.since > OVERDUE_AFTER]:
            yield overdue, was, done


@NODES.rule("nodes")
def nothing_is_claimed(seen: Seen) -> Said:
    """Tell nobody's looking from being passed over: was anything claimed since it was late?"""
    activity, last, is_told = seen.activity, seen.activity.last_claim, False
    there = [node.name for node in activity.present if node.schedules]
    for late, was, done in _late(seen):
        unseen = [each for each in late if last is None or each.since > last.at]
        if not unseen:
            whose = "its" if len(late) == 1 else "their"
            yield error(
                f"{_said(late, was, done)}, though schedulers claim others (the last {last}): "
                f"{whose} rows are held by another session, or refused",
                f"{LOOK_FOR_HELD}. If no scheduler runs any more, {_start(seen)}",
            )
        elif not is_told:
            is_told, what = True, f"{_said(unseen, was, done)}, nor is anything claimed since then"
            held = "another session holds all that is due"
            if there:
                verb = "is" if len(there) == 1 else "are"
                who = f"{named(there)} {verb} there: {held}, or it is refused"
                yield error(f"{what}: {who}", LOOK_FOR_HELD)
                continue
            none = "no scheduler reports itself" if activity.nodes else "no scheduler looks"
            yield error(
                f"{what}: {none}, or {held}",
                f"{_start(seen)}; if one is running, its log says why it cannot. Of "
                "`schedule.held` end the transaction that was left open",
            )
    # While no node reports itself nothing can be said.
    if activity.nodes and not there and not is_told:
        what = "No scheduler reports itself: what falls due is not claimed"
        yield warning(what, _start(seen))


@NODES.rule("nodes")
def next_due(seen: Seen) -> Said:
    activity = seen.activity
    due, count = activity.next_due, len(activity.unplanned)
    if any(_late(seen)):
        return
    if due is None:
        if count and not activity.nodes:
            yield note(
                f"No scheduler has planned {counted(count, 'schedule')} yet, and no node reports "
                "itself: nobody knows when anything is due",
                f"{_start(seen)}: without one nobody runs {'it' if count == 1 else 'them'}",
            )
    elif due >= seen.now:
        what = f"Nothing is overdue; the next is due at {say_moment(due)}"
        yield ok(what) if activity.nodes else note(f"{what}; no node reports itself", _start(seen))


# The nodes by their reports, and by the leases of what they run


def _names(seen: Seen) -> set[str]:
    return {node.name for node in seen.activity.present}


@NODES.rule("nodes")
def reporting(seen: Seen) -> Said:
    for node in seen.activity.present:
        if node.is_disconnected(seen.now):
            since = say_moment(node.consumed_at or node.started_at)
            yield warning(
                f"{node.name} ({node.role}) takes nothing since {since}: its broker is away, or it "
                "is cut off from it",
                "its log says why it cannot consume; look at the broker, and at the way from its "
                "host",
            )
        else:
            tasks = "" if node.running is None else f"runs {counted(node.running, 'task')}, "
            at = say_moment(node.seen_at)
            yield ok(f"{node.name} ({node.role} {node.version}) {tasks}last seen at {at}")


@NODES.rule("nodes")
def owners(seen: Seen) -> Said:
    """One that runs tasks need not have reported itself."""
    for owner in seen.activity.owners:
        name, tasks, until = shown(owner.name), counted(owner.running, "task"), owner.lease_until
        if until is None or seen.now - until <= OVERDUE_AFTER:
            if owner.name not in _names(seen):
                yield ok(f"{name} runs {tasks}")
            continue
        what = "does not renew the lease of" if owner.name in _names(seen) else "vanished with"
        yield error(
            f"{name} {what} {tasks}: its lease ended at {say_moment(until)}, and nobody has taken "
            "them up",
            f"{_start(seen)}: it takes up what was lost",
        )


@NODES.rule("nodes")
def silent(seen: Seen) -> Said:
    for node in seen.activity.nodes:
        if node.name not in _names(seen) and node.seen_at <= seen.now:
            yield note(
                f"{node.name} ({node.role}) is silent since {say_moment(node.seen_at)}: it was "
                "killed, or is cut off from the database",
                "if it was to go on, its log says why it does not; start it again. If it will not "
                "come back: `cronhare nodes forget NAME`",
            )


@NODES.rule("nodes")
def different_versions(seen: Seen) -> Said:
    names = defaultdict[str, list[str]](list)
    for node in seen.activity.present:
        names[node.version].append(node.name)
    if len(names) > 1:
        each = "; ".join(f"{version} ({named(of_it)})" for version, of_it in sorted(names.items()))
        cure = "restart the nodes of the older versions: a mixture is for the time of an upgrade"
        yield note(f"Different versions are at work: {each}", cure)


@NODES.rule("clock")
def wrong_clocks(seen: Seen) -> Said:
    off = {
        node.host: f"{node.host} by {node.clock_offset.total_seconds():+.3f} s"
        for node in seen.activity.present
        if abs(node.clock_offset) > WORRYING_SKEW
    }
    if off:
        hosts = named([said for _, said in sorted(off.items())])
        what = f"Hosts are off the ledger's clock: {hosts}. {HARMLESS} their nodes' logs are wrong"
        yield warning(what, SET_CLOCKS.format("these hosts"))


def older_files(nodes: Sequence[NodeReport], file: FileVersion, *, now: datetime) -> Said:
    """Name those who run tasks of another version of the jobs file, or app, that was read here."""
    differing = [
        node
        for node in alive(nodes, now)
        if node.files.get(file.source, file.digest) not in {"", file.digest}
    ]
    if differing:
        names = named([node.name for node in differing])
        known = [(each.host, read_node(each.name)) for each in differing[:NAMES_TOLD]]
        where = "; ".join(f"kill -HUP {node.pid} on {host}" for host, node in known if node)
        yield warning(
            f"{names}: with another version of {file.source} than this one",
            f"give each this file and reload it (systemctl reload, or {where}; under nohup restart "
            "it). A task that is new is read when a run first names it; one that was changed runs "
            "as it was until then",
        )


@NODES.rule("nodes")
def nodes_with_older_files(seen: Seen) -> Said:
    for file in seen.files:
        yield from older_files(seen.activity.nodes, file, now=seen.now)


@NODES.rule("nodes")
def unserved_queues(seen: Seen) -> Said:
    """Where no broker counts consumers: queues that nobody serves, if others cannot serve them.

    Of a broker in memory nothing is said either if no process is there that has one.
    """
    known = seen.activity.served
    if isinstance(seen.broker, BrokerFacts) or known is None:
        return
    if seen.in_memory and not seen.activity.present:
        return
    waiting = {each.queue for each in seen.activity.waiting}  # which is told of the runs
    if unserved := sorted({*seen.asked_for}.difference(known, waiting)):
        cure = (
            # One is there, and serves what its file named at its start.
            f"{have_up_serve(unserved)}, and start `cronhare up` anew"
            if seen.in_memory
            else f"start one: {serve(unserved, seen.options)}; fine if another program serves it"
        )
        yield warning(f"No worker reports that it serves {named(unserved)}", cure)


@NODES.rule("rows")
def broken_rows(seen: Seen) -> Said:
    if broken := seen.activity.broken_rows:
        counts = "counts" if len(broken) == 1 else "count"
        told = "; ".join(map(shown, broken[:NAMES_TOLD]))
        what = f"{counted(len(broken), 'row')} cannot be read, and {counts} for nothing: {told}"
        yield warning(what, "look for who writes there, and mend or delete them")
