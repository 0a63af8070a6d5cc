"""Who is there: whether what is due is claimed, which nodes report themselves, and how they are."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

import attrs

from cronhare.domain.nodes import WORRYING_SKEW, NodeReport, alive, read_node
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import (
    NAMES_TOLD,
    OVERDUE_AFTER,
    BrokerFacts,
    Late,
    Owner,
    Severity,
)

from ..starting import have_up_serve, serve, start_scheduling
from .finding import Rules, Said, Seen, Told, named
from .servers import HARMLESS, SET_CLOCKS

OK, NOTE, WARNING, ERROR = Severity.OK, Severity.NOTE, Severity.WARNING, Severity.ERROR

NODES = Rules()

#: Where to look for the reason why a scheduler cannot claim a schedule, and what ends that.
LOOK_FOR_HELD = (
    "look for `schedule.held` and `schedule.refused` in the schedulers' logs: they say what is in "
    "the way. End the transaction that was left open; docs/operators.md says at `ledger.busy` how "
    "to find it"
)


def _start(seen: Seen) -> str:
    return start_scheduling(seen.jobs, in_memory=seen.in_memory)


# What is due


@attrs.frozen
class _Omission:
    """Schedules that are *late*, the earliest first: what was not *done*, and what they *were*."""

    late: Sequence[Late]
    was: str
    done: str

    def __str__(self) -> str:
        names, first = named([each.name for each in self.late]), say_moment(self.late[0].since)
        if len(self.late) == 1:
            return f"{names} was {self.was} at {first} and is not {self.done}"
        return f"{names} were {self.was}, the first at {first}, and are not {self.done}"


def _omissions(seen: Seen) -> Iterator[_Omission]:
    activity = seen.activity
    for late, was, done in (
        (activity.overdue, "due", "claimed"),
        (activity.unplanned, "written", "planned"),
    ):
        overdue = [each for each in late if activity.now - each.since > OVERDUE_AFTER]
        if overdue:
            yield _Omission(overdue, was, done)


def _unseen(seen: Seen) -> _Omission | None:
    """Find what nobody has looked at: nothing at all was claimed since it was late."""
    last = seen.activity.last_claim
    for omission in _omissions(seen):
        unseen = [each for each in omission.late if last is None or each.since > last.at]
        if unseen:
            return attrs.evolve(omission, late=unseen)
    return None


@NODES.rule("nodes", ERROR)
def nothing_is_claimed(seen: Seen) -> Said:
    if (unseen := _unseen(seen)) is None:
        return
    what = f"{unseen}, nor is anything claimed since then"
    if there := [node.name for node in seen.activity.present if node.schedules]:
        held = "another session holds all that is due, or it is refused"
        yield Told(
            f"{what}: {named(there)} {'is' if len(there) == 1 else 'are'} there: {held}",
            LOOK_FOR_HELD,
        )
        return
    none = "no scheduler reports itself" if seen.activity.nodes else "no scheduler looks"
    yield Told(
        f"{what}: {none}, or another session holds all that is due",
        f"start {_start(seen)}; if one is running, its log says why it cannot. Of `schedule.held` "
        "end the transaction that was left open",
    )


@NODES.rule("schedules", ERROR)
def passed_over(seen: Seen) -> Said:
    last = seen.activity.last_claim
    for omission in _omissions(seen) if last is not None else ():
        if last is not None and all(each.since <= last.at for each in omission.late):
            whose = "its" if len(omission.late) == 1 else "their"
            yield Told(
                f"{omission}, though schedulers claim others (the last {last}): {whose} rows are "
                "held by another session, or refused",
                f"{LOOK_FOR_HELD}. If no scheduler runs any more, start {_start(seen)}",
            )


@NODES.rule("nodes", WARNING)
def no_scheduler(seen: Seen) -> Said:
    """While no node reports itself nothing can be said, nor where one was not read."""
    activity = seen.activity
    is_there = any(node.schedules for node in activity.present)
    if activity.nodes and not activity.unread_nodes and not is_there and _unseen(seen) is None:
        what = "No scheduler reports itself: what falls due is not claimed"
        yield Told(what, f"start {_start(seen)}")


def _nobody_reports(seen: Seen) -> bool:
    return not seen.activity.nodes and not seen.activity.unread_nodes


@NODES.rule("nodes", OK)
def next_due(seen: Seen) -> Said:
    now, due = seen.now, seen.activity.next_due
    if due is None or any(_omissions(seen)):
        return
    if due < now:
        ago = (now - due).total_seconds()
        yield Told(f"What was due at {say_moment(due)}, {ago:.0f} s ago, is not claimed yet")
    elif not _nobody_reports(seen):
        yield Told(f"Nothing is overdue; the next is due at {say_moment(due)}")


@NODES.rule("nodes", NOTE)
def nobody_for_what_is_next(seen: Seen) -> Said:
    due = seen.activity.next_due
    if due is not None and due >= seen.now and _nobody_reports(seen) and not any(_omissions(seen)):
        what = f"Nothing is overdue; the next is due at {say_moment(due)}; no node reports itself"
        yield Told(what, f"start {_start(seen)}")


@NODES.rule("nodes", NOTE)
def nobody_to_plan(seen: Seen) -> Said:
    activity, count = seen.activity, len(seen.activity.unplanned)
    if not count or activity.next_due is not None or not _nobody_reports(seen):
        return
    if not any(_omissions(seen)):
        yield Told(
            f"No scheduler has planned {counted(count, 'schedule')} yet, and no node reports "
            "itself: nobody knows when anything is due",
            f"start {_start(seen)}: without one nobody runs {'it' if count == 1 else 'them'}",
        )


# The nodes by their reports, and by the leases of what they run


def _names(seen: Seen) -> set[str]:
    return {node.name for node in seen.activity.present}


@NODES.rule("nodes", OK)
def at_work(seen: Seen) -> Said:
    for node in seen.activity.present:
        if not node.is_disconnected(seen.now):
            tasks = "" if node.running is None else f"runs {counted(node.running, 'task')}, "
            at = say_moment(node.seen_at)
            yield Told(f"{node.name} ({node.role} {node.version}) {tasks}last seen at {at}")


@NODES.rule("nodes", WARNING)
def cut_off(seen: Seen) -> Said:
    for node in seen.activity.present:
        if node.is_disconnected(seen.now):
            since = say_moment(node.consumed_at or node.started_at)
            yield Told(
                f"{node.name} ({node.role}) takes nothing since {since}: its broker is away, or it "
                "is cut off from it",
                "its log says why it cannot consume; look at the broker, and at the way from its "
                "host",
            )


def _is_lost(owner: Owner, now: datetime) -> bool:
    return owner.lease_until is not None and now - owner.lease_until > OVERDUE_AFTER


@NODES.rule("nodes", OK)
def at_work_without_a_report(seen: Seen) -> Said:
    for owner in seen.activity.owners:
        if owner.name not in _names(seen) and not _is_lost(owner, seen.now):
            yield Told(f"{shown(owner.name)} runs {counted(owner.running, 'task')}")


@NODES.rule("nodes", ERROR)
def lost(seen: Seen) -> Said:
    for owner in seen.activity.owners:
        if owner.lease_until is not None and _is_lost(owner, seen.now):
            there = owner.name in _names(seen)
            what = "does not renew the lease of" if there else "vanished with"
            yield Told(
                f"{shown(owner.name)} {what} {counted(owner.running, 'task')}: its lease ended at "
                f"{say_moment(owner.lease_until)}, and nobody has taken them up",
                f"start {_start(seen)}: it takes up what was lost",
            )


@NODES.rule("nodes", NOTE)
def silent(seen: Seen) -> Said:
    for node in seen.activity.nodes:
        if node.name not in _names(seen) and node.seen_at <= seen.now:
            yield Told(
                f"{node.name} ({node.role}) is silent since {say_moment(node.seen_at)}: it was "
                "killed, or is cut off from the database",
                "if it was to go on, its log says why it does not; start it again",
            )


@NODES.rule("nodes", NOTE)
def different_versions(seen: Seen) -> Said:
    names = defaultdict[str, list[str]](list)
    for node in seen.activity.present:
        names[node.version].append(node.name)
    if len(names) > 1:
        told = [f"{version} ({named(of_it)})" for version, of_it in sorted(names.items())]
        rest = len(told) - NAMES_TOLD
        each = "; ".join(told[:NAMES_TOLD]) + (
            f"; and {counted(rest, 'other')}" if rest > 0 else ""
        )
        cure = "restart the nodes of the older versions: a mixture is for the time of an upgrade"
        yield Told(f"Different versions are at work: {each}", cure)


@NODES.rule("clock", WARNING)
def wrong_clocks(seen: Seen) -> Said:
    off = {
        node.host: f"{node.host} by {node.clock_offset.total_seconds():+.3f} s"
        for node in seen.activity.present
        if abs(node.clock_offset) > WORRYING_SKEW
    }
    if off:
        hosts = named([said for _, said in sorted(off.items())])
        what = f"Hosts are off the ledger's clock: {hosts}. {HARMLESS} their nodes' logs are wrong"
        yield Told(what, SET_CLOCKS.format("these hosts"))


def older_files(nodes: Sequence[NodeReport], file: FileVersion, *, now: datetime) -> Iterator[Told]:
    """Name those who run tasks of another version of the jobs file that was read here."""
    differing = [
        node
        for node in alive(nodes, now)
        if node.source == file.source and node.digest not in {None, file.digest}
    ]
    if differing:
        names = named([node.name for node in differing])
        known = [(each.host, read_node(each.name)) for each in differing[:NAMES_TOLD]]
        where = "; ".join(f"kill -HUP {node.pid} on {host}" for host, node in known if node)
        yield Told(
            f"{names}: with another version of {file.source} than this one",
            f"give each this file and reload it (systemctl reload, or {where}; under nohup restart "
            "it). A task that is new is read when a run first names it; one that was changed runs "
            "as it was until then",
        )


@NODES.rule("nodes", WARNING)
def nodes_with_older_files(seen: Seen) -> Said:
    if seen.file is not None:
        yield from older_files(seen.activity.nodes, seen.file, now=seen.now)


@NODES.rule("nodes", WARNING)
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
            else f"start one: {serve(unserved, seen.jobs)}; fine if another program serves it"
        )
        yield Told(f"No worker reports that it serves {named(unserved)}", cure)


# Rows of ours that cannot be read


@NODES.rule("nodes", WARNING)
def broken_reports(seen: Seen) -> Said:
    if broken := seen.activity.broken_nodes:
        counts = "counts" if broken == 1 else "count"
        what = f"{counted(broken, 'row')} of SchedulerNode cannot be read, and {counts} for nothing"
        yield Told(
            what,
            "look for who writes there, and delete what no node wrote: nodes write theirs anew",
        )


@NODES.rule("rows", WARNING)
def broken_rows(seen: Seen) -> Said:
    if broken := seen.activity.broken_rows:
        counts = "counts" if len(broken) == 1 else "count"
        told = "; ".join(map(shown, broken[:NAMES_TOLD]))
        what = f"{counted(len(broken), 'row')} cannot be read, and {counts} for nothing: {told}"
        yield Told(what, "look for who writes there, and mend or delete them")
