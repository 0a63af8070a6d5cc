"""What the ledger shows: its schema, its nodes, and whether what is due is claimed."""

from collections.abc import Iterable, Iterator, Sequence

from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import (
    NAMES_TOLD,
    Activity,
    LedgerFacts,
    SchemaFault,
    Severity,
)

from ..starting import have_up_serve, serve, start_scheduling
from .clock import judge_clock, judge_clocks
from .database import judge_database
from .finding import Finding, named
from .nodes import judge_nodes, judge_rows, judge_schedulers
from .overdue import CLAIMED, PLANNED, judge_late


def judge_ledger(facts: LedgerFacts) -> Iterator[Finding]:
    """Judge all but the schedules and who works on them, which need to be held against more."""
    yield from judge_database(facts.database)
    match facts.schema:
        case SchemaFault(what, cure):
            yield Finding(Severity.ERROR, "schema", what, cure)
        case revision:
            yield Finding(Severity.OK, "schema", f"Revision {revision}, which this version wants")
    yield judge_clock(facts.skew)


def judge_activity(
    activity: Activity, *, in_memory: bool = False, jobs: str | None = None
) -> Iterator[Finding]:
    """Judge whether what is due is claimed, and who is there to work.

    *in_memory* is what the broker is; *jobs* the path of the jobs file, where it is known.
    """
    now, start = activity.now, start_scheduling(jobs, in_memory=in_memory)
    yield from _scheduling(activity, start)
    yield from judge_nodes(activity.nodes, activity.owners, now=now, start=start)
    yield from judge_rows(unread=activity.unread_nodes, broken=activity.broken_nodes)
    yield from _broken_rows(activity.broken_rows)
    yield from judge_clocks(activity.present)


def _broken_rows(broken: Sequence[str]) -> Iterator[Finding]:
    """Name the first rows of our own tables that cannot be read."""
    if broken:
        counts = "counts" if len(broken) == 1 else "count"
        told = "; ".join(map(shown, broken[:NAMES_TOLD]))
        what = f"{counted(len(broken), 'row')} cannot be read, and {counts} for nothing: {told}"
        cure = "look for who writes there, and mend or delete them"
        yield Finding(Severity.WARNING, "rows", what, cure)


def _scheduling(activity: Activity, start: str) -> Iterator[Finding]:
    now, last, nodes = activity.now, activity.last_claim, activity.nodes
    late = [*judge_late(activity.overdue, last, CLAIMED, nodes=nodes, now=now, start=start)]
    if not any(each.subject == "nodes" for each in late):  # or one thing would be said twice
        late += judge_late(activity.unplanned, last, PLANNED, nodes=nodes, now=now, start=start)
        if not activity.unread_nodes:  # one of those may be a scheduler
            late += judge_schedulers(nodes, now=now, start=start)
    yield from late
    due = activity.next_due
    if any(each.severity is Severity.ERROR for each in late):
        return
    if due is None:
        yield from _unplanned(activity, start)
        return
    if due < now:
        ago = (now - due).total_seconds()
        what = f"What was due at {say_moment(due)}, {ago:.0f} s ago, is not claimed yet"
    else:
        what = f"Nothing is overdue; the next is due at {say_moment(due)}"
    if due >= now and not nodes and not activity.unread_nodes:
        cure = f"start {start}"
        yield Finding(Severity.NOTE, "nodes", f"{what}; no node reports itself", cure)
        return
    yield Finding(Severity.OK, "nodes", what)


def _unplanned(activity: Activity, start: str) -> Iterator[Finding]:
    """Say that nothing has ever been planned, where nobody is there who would."""
    if (count := len(activity.unplanned)) and not activity.nodes and not activity.unread_nodes:
        them = "it" if count == 1 else "them"
        what = (
            f"No scheduler has planned {counted(count, 'schedule')} yet, and no node reports "
            "itself: nobody knows when anything is due"
        )
        yield Finding(
            Severity.NOTE, "nodes", what, f"start {start}: without one nobody runs {them}"
        )


def judge_unserved(
    queues: Iterable[str], activity: Activity, *, in_memory: bool, jobs: str | None
) -> Iterator[Finding]:
    """Name those *queues* that no worker serves, where no broker counts their consumers.

    Nothing can be said where others may serve them. Of a broker *in_memory* nothing is said either
    if no process is there that has one.
    """
    known = activity.served
    if known is None or (in_memory and not activity.present):
        return
    if unserved := sorted({*queues}.difference(known)):
        cure = (
            # One is there, and serves what its file named at its start.
            f"{have_up_serve(unserved)}, and start `cronhare up` anew"
            if in_memory
            else f"start one: {serve(unserved, jobs)}; fine if another program serves it"
        )
        yield Finding(
            Severity.WARNING,
            "nodes",
            f"No worker reports that it serves {named(unserved)}",
            cure,
        )
