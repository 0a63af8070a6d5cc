"""`cronhare nodes list`."""

import sys
from collections.abc import Iterator

import typer

from cronhare.application.administration.views.work import NodesView, NodeView
from cronhare.domain.texts.listing import counted, listed

from ..output import Columns, Json, print_line, print_rows, state
from ..wiring import open_ledger

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_(*, json: Json = False) -> None:
    """List schedulers and workers: what they run, when they were seen, and how far clocks are off.

    A node that is silent has not reported itself for 45 s: it was killed, or is cut off from the
    database. An hour later it is forgotten, once another begins. The 1,000 that were seen last are
    listed.
    """
    found = open_ledger().queries().nodes()
    columns: Columns[NodeView] = {
        "NODE": "name",
        "ROLE": "role",
        "VERSION": "version",
        "STATE": lambda node: state("silent" if node.silent else "at work"),
        "STARTED": "started_at",
        "LAST SEEN": "seen_at",
        "RUNNING": "running",
        "OF": "concurrency",
        "QUEUES": lambda node: listed(node.queues),
        "CLOCK S": lambda node: f"{node.clock_offset_seconds:+.1f}",
    }
    empty = "No report can be read." if found.broken else "No node has reported itself."
    print_rows(found.nodes, columns, json=json, empty=empty)
    for line in _left_out(found):
        if json:
            sys.stderr.write(f"{line}\n")
        else:
            print_line(line)


def _left_out(found: NodesView) -> Iterator[str]:
    if found.unread:
        known = len(found.nodes) + found.broken + found.unread
        others = f"{counted(found.unread, 'other')} of {known:,} in all"
        yield f"{others} are not listed: these were seen last."
    if found.broken:
        rows = counted(found.broken, "row")
        yield f"{rows} of SchedulerNode cannot be read; `cronhare doctor` says what to do."
