"""What the ledger shows of itself: schema, clock, nodes, and whether somebody works on it."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

import attrs

from cronhare.domain.texts.listing import counted
from cronhare.domain.texts.moments import say_moment

from .database import DatabaseFacts, judge_database
from .finding import Finding, Severity
from .overdue import CLAIMED, PLANNED, LastClaim, Late, judge_late
from .quarantine import Quarantined
from .starting import start_scheduling
from .waiting import OVERDUE_AFTER, Waiting
from .work import ScheduleFacts

#: How far a node's clock may be off unsaid, here and in a worker's log.
WORRYING_SKEW = timedelta(seconds=1)


@attrs.frozen(kw_only=True)
class NodeFacts:
    """A process, as the rows show it.

    *running* counts its attempts, whose lease ends at *lease_until*; *seen_at* is its last act.
    """

    name: str
    running: int = 0
    lease_until: datetime | None = None
    seen_at: datetime | None = None

    def is_at_work(self, now: datetime) -> bool:
        """Tell whether it runs something, and has said so lately."""
        return bool(self.running) and self.lease_until is not None and self.lease_until > now


@attrs.frozen(kw_only=True)
class Activity:
    """What the rows say of those who work on them.

    *next_due* is the earliest of all plans. *overdue* are schedules that were due then and could
    have been claimed, *unplanned* those that are on, and are since then as nobody has planned them:
    the earliest first. *waiting* are runs that nobody begins; *queues* are those of all runs that
    have not ended.
    """

    now: datetime
    next_due: datetime | None = None
    overdue: Sequence[Late] = ()
    unplanned: Sequence[Late] = ()
    last_claim: LastClaim | None = None
    nodes: Sequence[NodeFacts] = ()
    waiting: Sequence[Waiting] = ()
    queues: Collection[str] = ()
    quarantined: Quarantined = attrs.field(factory=Quarantined)

    @property
    def is_at_work(self) -> bool:
        """Tell whether somebody runs something."""
        return any(node.is_at_work(self.now) for node in self.nodes)


@attrs.frozen
class SchemaFault:
    """The schema is not this program's: what is wrong, and what mends it."""

    what: str
    cure: str


@attrs.frozen(kw_only=True)
class LedgerFacts:
    """A ledger. *activity* and *schedules* are None where the schema does not let us look.

    *skew* is how far this node's own clock is ahead of the ledger's.
    """

    database: DatabaseFacts
    schema: str | SchemaFault
    skew: timedelta = timedelta(0)
    activity: Activity | None = None
    schedules: Sequence[ScheduleFacts] | None = None


def judge_ledger(facts: LedgerFacts) -> Iterator[Finding]:
    """Judge all but the schedules and who works on them, which need to be held against more."""
    yield from judge_database(facts.database)
    match facts.schema:
        case SchemaFault(what, cure):
            yield Finding(Severity.ERROR, "schema", what, cure)
        case revision:
            yield Finding(Severity.OK, "schema", f"Revision {revision}, which this version wants")
    yield _clock(facts.skew)


def _clock(skew: timedelta) -> Finding:
    shown = f"{skew.total_seconds():+.3f} s"
    if abs(skew) <= WORRYING_SKEW:
        what = f"This node is {shown} off the ledger's clock, which decides what is due"
        return Finding(Severity.OK, "clock", what)
    return Finding(
        Severity.WARNING,
        "clock",
        f"This node is {shown} off the ledger's clock. The ledger's decides, so nothing runs at "
        "the wrong time, but the times in this node's log are wrong",
        "let NTP set the clocks of this host and of the database's (`timedatectl`, `chronyc "
        "tracking`)",
    )


def judge_activity(
    activity: Activity, *, in_memory: bool = False, jobs: str | None = None
) -> Iterator[Finding]:
    """Judge whether somebody schedules, and whether the nodes that run something are alive.

    *in_memory* is what the broker is; *jobs* the path of the jobs file, where it is known.
    """
    start = start_scheduling(jobs, in_memory=in_memory)
    yield from _overdue(activity, start)
    for node in activity.nodes:
        yield _node(node, activity.now, start)
    if activity.nodes:
        yield Finding(
            Severity.NOTE,
            "nodes",
            "How far the others' clocks are off, only they can tell",
            "run doctor on each host; a node that is more than a second off also logs the action "
            "clock.skew",
        )


def _overdue(activity: Activity, start: str) -> Iterator[Finding]:
    now, last = activity.now, activity.last_claim
    late = [*judge_late(activity.overdue, last, CLAIMED, now=now, start=start)]
    if not any(each.subject == "nodes" for each in late):  # or one thing would be told twice
        late += judge_late(activity.unplanned, last, PLANNED, now=now, start=start)
    yield from late
    due = activity.next_due
    if late or due is None:
        return
    if due < now:
        ago = (now - due).total_seconds()
        what = f"What was due at {say_moment(due)}, {ago:.0f} s ago, is not claimed yet"
        yield Finding(Severity.OK, "nodes", what)
    else:
        what = f"Nothing is overdue; the next is due at {say_moment(due)}"
        yield Finding(Severity.OK, "nodes", what)


def _node(node: NodeFacts, now: datetime, start: str) -> Finding:
    seen = f", last seen at {say_moment(node.seen_at)}" if node.seen_at else ""
    if not node.running:  # nothing tells it from one that has ended
        what = f"{node.name} runs nothing{seen}; who waits for work leaves no trace"
        return Finding(Severity.OK, "nodes", what)
    if node.lease_until is not None and now - node.lease_until > OVERDUE_AFTER:
        return Finding(
            Severity.ERROR,
            "nodes",
            f"{node.name} vanished with {counted(node.running, 'task')}: its lease ended at "
            f"{say_moment(node.lease_until)}, and nobody has taken them up",
            f"start {start}: it takes up what was lost",
        )
    return Finding(Severity.OK, "nodes", f"{node.name} runs {counted(node.running, 'task')}{seen}")
