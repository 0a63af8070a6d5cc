"""The nodes: those that report themselves, and those that own what runs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

import attrs

from cronhare.domain.nodes import FORGOTTEN_AFTER, NodeReport, alive, container_id
from cronhare.domain.texts.listing import counted
from cronhare.domain.texts.moments import say_moment

from .finding import Finding, Severity, named
from .overdue import LastClaim
from .waiting import OVERDUE_AFTER

SUBJECT = "nodes"


@attrs.frozen(kw_only=True)
class Owner:
    """A node that owns *running* attempts; their last lease ends at *lease_until*."""

    name: str
    running: int
    lease_until: datetime | None = None

    def is_at_work(self, now: datetime) -> bool:
        """Whether it has renewed a lease lately."""
        return self.lease_until is not None and self.lease_until > now


def judge_nodes(
    nodes: Sequence[NodeReport], owners: Sequence[Owner], *, now: datetime, start: str
) -> Iterator[Finding]:
    """Judge the nodes by their reports, and the owners by their leases.

    An owner need not have reported itself: nodes of older versions do not. *start* says how a
    scheduler is started.
    """
    present = alive(nodes, now)
    names = {node.name for node in present}
    for node in present:
        yield Finding(Severity.OK, SUBJECT, _at_work(node))
    for owner in owners:
        yield from _owner(owner, now=now, start=start, reports=owner.name in names)
    for node in nodes:
        if node.name not in names:
            yield Finding(
                Severity.NOTE,
                SUBJECT,
                f"{node.name} ({node.role}) is silent since {say_moment(node.seen_at)}: it was "
                "killed, or is cut off from the database",
                "if it was to go on, its log says why it does not; start it again",
            )
    yield from _versions(present)


def _at_work(node: NodeReport) -> str:
    tasks = "" if node.running is None else f"runs {counted(node.running, 'task')}, "
    seen = f"last seen at {say_moment(node.seen_at)}"
    return f"{node.name} ({node.role} {node.version}) {tasks}{seen}"


def _owner(owner: Owner, *, now: datetime, start: str, reports: bool) -> Iterator[Finding]:
    tasks = counted(owner.running, "task")
    if owner.lease_until is None or now - owner.lease_until <= OVERDUE_AFTER:
        if not reports:
            yield Finding(Severity.OK, SUBJECT, f"{owner.name} runs {tasks}")
        return
    what = "does not renew the lease of" if reports else "vanished with"
    yield Finding(
        Severity.ERROR,
        SUBJECT,
        f"{owner.name} {what} {tasks}: its lease ended at {say_moment(owner.lease_until)}, and "
        "nobody has taken them up",
        f"start {start}: it takes up what was lost",
    )


def _versions(present: Sequence[NodeReport]) -> Iterator[Finding]:
    names = defaultdict[str, list[str]](list)
    for node in present:
        names[node.version].append(node.name)
    if len(names) > 1:
        each = "; ".join(f"{version} ({named(of_it)})" for version, of_it in sorted(names.items()))
        cure = "restart the nodes of the older versions: a mixture is for the time of an upgrade"
        yield Finding(Severity.NOTE, SUBJECT, f"Different versions are at work: {each}", cure)


def judge_schedulers(
    nodes: Sequence[NodeReport], last: LastClaim | None, *, now: datetime, start: str
) -> Iterator[Finding]:
    """Judge whether a scheduler reports itself; while no node does, nothing can be said.

    *last* is the newest claim. If it was made within the time for which reports are kept, by a node
    that has none, a scheduler of an older version may be at work.
    """
    if not nodes or any(node.schedules for node in alive(nodes, now)):
        return
    severity, what = Severity.WARNING, "No scheduler reports itself: what falls due is not claimed"
    known = {container_id(node.name) for node in nodes}
    if last is not None and last.node not in known and now - last.at < FORGOTTEN_AFTER:
        severity = Severity.NOTE
        what = f"No scheduler reports itself; one of an older version may claim (the last {last})"
    yield Finding(severity, SUBJECT, what, f"start {start}")
