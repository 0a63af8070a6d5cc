"""`cronhare nodes list | drain | undrain`."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.words import counted, listed

from ...node_identity import this_actor
from ..completion import NODES
from ..output import Json, print_json, print_line, state
from ..rows import Columns, print_rows
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.views.work import NodesView, NodeView


def list_(*, json: Json = False) -> None:
    """List schedulers and workers: what they run, when they were seen, and how far clocks are off.

    A node that is silent has not reported itself for 9 s: it was killed, or is cut off from the
    database, and what it ran is listed below. One that is disconnected gets nothing from its broker
    for two minutes. An hour later it is forgotten, once another begins.
    The 1,000 that were seen last are listed.
    """
    found = open_ledger().queries().nodes()
    columns: Columns[NodeView] = {
        "NODE": "name",
        "ROLE": "role",
        "VERSION": "version",
        "STATE": lambda node: state(node.state.value),
        "STARTED": "started_at",
        "LAST SEEN": "seen_at",
        "RUNNING": "running",
        "OF": "concurrency",
        "QUEUES": lambda node: listed(node.queues),
        "CLOCK S": lambda node: f"{node.clock_offset_seconds:+.1f}",
    }
    empty = "No report can be read." if found.broken else "No node has reported itself."
    print_rows(
        found.nodes,
        columns,
        json=json,
        empty=empty,
        spare=("VERSION", "CLOCK S", "STARTED"),
        elastic=("QUEUES",),
    )
    for line in (*_left_runs(found), *_left_out(found)):
        if json:
            sys.stderr.write(f"{line}\n")
        else:
            print_line(line)


Name = Annotated[
    str,
    typer.Argument(
        help="The node's name, or as much of its beginning as no other has.",
        show_default=False,
        autocompletion=NODES,
    ),
]


def drain(name: Name, *, json: Json = False) -> None:
    """Have a worker take no more work: what it runs goes on, and it stays until it is taken back.

    It hears of it within 3 s. Messages wait for other workers, or for it. A worker that is started
    anew is another node, and takes work.
    """
    container = open_ledger()
    node = container.node_desk().drain(name, actor=this_actor(), now=container.ledger_time().now())
    if json:
        print_json(node)
        return
    runs = f"it runs {node.running or 0} of {node.concurrency}"
    print_line(f"{node.name} is {node.state}: {runs}, and takes no more within 3 s.")
    print_line(f"To take it back: cronhare nodes undrain {node.name}")


def undrain(name: Name, *, json: Json = False) -> None:
    """Let a worker that was drained take work again; it hears of it within 3 s."""
    container = open_ledger()
    node = container.node_desk().undrain(
        name, actor=this_actor(), now=container.ledger_time().now()
    )
    if json:
        print_json(node)
        return
    print_line(f"{node.name} takes work again, within 3 s.")


def _left_runs(found: "NodesView") -> Iterator[str]:
    for run in found.left_runs:
        lost = "" if run.lease_until is None else f"; lost at {say_moment(run.lease_until)}"
        yield f"{run.node} left execution {run.execution_id} ({run.schedule_name}){lost}"


def _left_out(found: "NodesView") -> Iterator[str]:
    if found.unread:
        known = len(found.nodes) + found.broken + found.unread
        others = f"{counted(found.unread, 'other')} of {known:,} in all"
        yield f"{others} are not listed: these were seen last."
    if found.broken:
        rows = counted(found.broken, "row")
        yield f"{rows} of SchedulerNode cannot be read; `cronhare doctor` says what to do."
