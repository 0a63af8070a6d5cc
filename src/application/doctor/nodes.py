"""The nodes: those that report themselves, and those that own what runs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from cronhare.domain.nodes import NodeReport, alive, present, read_node
from cronhare.domain.retries.retry import TASK_WAIT
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import NAMES_TOLD, OVERDUE_AFTER, Owner, Severity

from .finding import Finding, named

SUBJECT, AT_WORK = "nodes", "at work"


def judge_nodes(
    nodes: Sequence[NodeReport], owners: Sequence[Owner], *, now: datetime, start: str
) -> Iterator[Finding]:
    """Judge the nodes by their reports, and the owners by their leases.

    An owner need not have reported itself. *start* says how a
    scheduler is started. The first few of each kind are named.
    """
    there = present(nodes, now)
    names = {node.name for node in there}
    cut_off = [node for node in there if node.is_disconnected(now)]
    well = [Finding(Severity.OK, SUBJECT, _at_work(node)) for node in there if node not in cut_off]
    yield from _first(well, AT_WORK)
    yield from _first([_cut_off(node) for node in cut_off], "cut off from its broker")
    judged = [
        finding
        for owner in owners
        for finding in _owner(owner, now=now, start=start, reports=owner.name in names)
    ]
    yield from _first([each for each in judged if each.severity is Severity.OK], AT_WORK)
    lost = "gone, or does not renew its leases"
    yield from _first([each for each in judged if each.severity is Severity.ERROR], lost)
    silent = [node for node in nodes if node.name not in names]
    yield from _first([_silent(node) for node in silent if node.seen_at <= now], "silent")
    yield from _first(
        [_ahead(node) for node in silent if node.seen_at > now], "seen as late as that"
    )
    yield from _versions(there)


def judge_files(
    nodes: Sequence[NodeReport], file: FileVersion, *, now: datetime
) -> Iterator[Finding]:
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
        yield Finding(
            Severity.WARNING,
            SUBJECT,
            f"{names}: with another version of {file.source} than this one",
            f"give each this file and reload it (systemctl reload, or {where}; under nohup restart "
            "it). A task that is new is read when a run first names it; one that was changed runs "
            "as it was until then",
        )


def judge_awaited(
    runs: int, nodes: Sequence[NodeReport], file: FileVersion | None, *, now: datetime
) -> Iterator[Finding]:
    """Tell of runs whose workers lack their tasks; *file* is the version that was read here."""
    if runs:
        read = {(node.source, node.digest) for node in alive(nodes, now) if node.digest}
        cure = (
            "every worker has this file by now: a task that it has runs within a minute; add one "
            "that it has not, or cancel the run (`cronhare executions cancel ID`)"
            if file is not None and read == {(file.source, file.digest)}
            else "reload the workers whose jobs file is older (systemctl reload, kill -HUP; "
            "under nohup restart them)"
        )
        wait = (
            "waits for a worker that has its" if runs == 1 else "wait for workers that have their"
        )
        yield Finding(
            Severity.WARNING,
            "runs",
            f"{counted(runs, 'run')} {wait} task; without one they fail for good within "
            f"{TASK_WAIT // timedelta(minutes=1)} minutes",
            f"{cure}; `cronhare executions list --state retrying` has the runs",
        )


def _first(findings: Sequence[Finding], state: str) -> Iterator[Finding]:
    """Give the first few of findings of one kind, and one more that counts the rest."""
    yield from findings[:NAMES_TOLD]
    if rest := findings[NAMES_TOLD:]:
        what = f"Each of {counted(len(rest), 'other node')} is {state}"
        yield Finding(rest[0].severity, SUBJECT, what, rest[0].cure, stands_for=len(rest))


def _silent(node: NodeReport) -> Finding:
    what = (
        f"{node.name} ({node.role}) is silent since {say_moment(node.seen_at)}: it was killed, or "
    )
    cure = "if it was to go on, its log says why it does not; start it again"
    return Finding(Severity.NOTE, SUBJECT, f"{what}is cut off from the database", cure)


def _cut_off(node: NodeReport) -> Finding:
    since = say_moment(node.consumed_at or node.started_at)
    what = (
        f"{node.name} ({node.role}) takes nothing since {since}: its broker is away, or it is cut"
    )
    cure = "its log says why it cannot consume; look at the broker, and at the way from its host"
    return Finding(Severity.WARNING, SUBJECT, f"{what} off from it", cure)


def _ahead(node: NodeReport) -> Finding:
    seen = f"{node.name} ({node.role}) was seen at {say_moment(node.seen_at)}"
    cure = "look at the database's clock, and for who writes into SchedulerNode"
    what = f"{seen}, which is to come: whether it is at work cannot be told"
    return Finding(Severity.NOTE, SUBJECT, what, cure)


def judge_rows(*, unread: int, broken: int) -> Iterator[Finding]:
    """Say how many reports were not looked at, and how many cannot be read."""
    if unread:
        what = f"{counted(unread, 'other node')} reported themselves and are not looked at"
        cure = "look for what starts nodes and kills them, or writes into SchedulerNode"
        yield Finding(Severity.NOTE, SUBJECT, what, cure)
    if broken:
        counts = "counts" if broken == 1 else "count"
        what = f"{counted(broken, 'row')} of SchedulerNode cannot be read, and {counts} for nothing"
        cure = "look for who writes there, and delete what no node wrote: nodes write theirs anew"
        yield Finding(Severity.WARNING, SUBJECT, what, cure)


def _at_work(node: NodeReport) -> str:
    tasks = "" if node.running is None else f"runs {counted(node.running, 'task')}, "
    seen = f"last seen at {say_moment(node.seen_at)}"
    return f"{node.name} ({node.role} {node.version}) {tasks}{seen}"


def _owner(owner: Owner, *, now: datetime, start: str, reports: bool) -> Iterator[Finding]:
    tasks = counted(owner.running, "task")
    if owner.lease_until is None or now - owner.lease_until <= OVERDUE_AFTER:
        if not reports:
            yield Finding(Severity.OK, SUBJECT, f"{shown(owner.name)} runs {tasks}")
        return
    what = "does not renew the lease of" if reports else "vanished with"
    yield Finding(
        Severity.ERROR,
        SUBJECT,
        f"{shown(owner.name)} {what} {tasks}: its lease ended at {say_moment(owner.lease_until)}, "
        "and nobody has taken them up",
        f"start {start}: it takes up what was lost",
    )


def _versions(present: Sequence[NodeReport]) -> Iterator[Finding]:
    names = defaultdict[str, list[str]](list)
    for node in present:
        names[node.version].append(node.name)
    if len(names) > 1:
        told = [f"{version} ({named(of_it)})" for version, of_it in sorted(names.items())]
        rest = len(told) - NAMES_TOLD
        each = "; ".join(told[:NAMES_TOLD])
        each += f"; and {counted(rest, 'other')}" if rest > 0 else ""
        cure = "restart the nodes of the older versions: a mixture is for the time of an upgrade"
        yield Finding(Severity.NOTE, SUBJECT, f"Different versions are at work: {each}", cure)


def judge_schedulers(
    nodes: Sequence[NodeReport], *, now: datetime, start: str
) -> Iterator[Finding]:
    """Judge whether a scheduler reports itself; while no node does, nothing can be said."""
    if not nodes or any(node.schedules for node in present(nodes, now)):
        return
    what = "No scheduler reports itself: what falls due is not claimed"
    yield Finding(Severity.WARNING, SUBJECT, what, f"start {start}")
