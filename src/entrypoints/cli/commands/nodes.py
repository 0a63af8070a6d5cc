"""`cronhare nodes list`."""

import typer

from cronhare.application.administration.views import NodeView
from cronhare.domain.texts.listing import listed

from ..output import Columns, Json, print_rows, state
from ..wiring import open_ledger

app = typer.Typer(
    help="The processes that work on the ledger.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(*, json: Json = False) -> None:
    """List schedulers and workers: what they run, when they were seen, and how far clocks are off.

    A node that is silent has not reported itself for 45 s: it was killed, or is cut off from the
    database. An hour later it is forgotten, once another begins.
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
    print_rows(found, columns, json=json, empty="No node has reported itself.")
