"""`cronhare nodes list`."""

import typer

from cronhare.domain.texts.listing import listed

from ..output import Json, print_json, state, table
from ..wiring import open_ledger

app = typer.Typer(
    help="The processes that work on the ledger.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(*, json: Json = False) -> None:
    """List schedulers and workers: what they run, when they were seen, and how far clocks are off.

    A node that is silent has not reported itself for 45 s: it has ended, or is cut off from the
    database. An hour later it is forgotten, once another begins.
    """
    found = open_ledger().queries().nodes()
    if json:
        print_json(found)
        return
    table(
        "NODE",
        "ROLE",
        "VERSION",
        "STATE",
        "STARTED",
        "LAST SEEN",
        "RUNNING",
        "OF",
        "QUEUES",
        "CLOCK S",
        rows=[
            (
                each.name,
                each.role,
                each.version,
                state("silent" if each.silent else "at work"),
                each.started_at,
                each.seen_at,
                each.running,
                each.concurrency,
                listed(each.queues),
                f"{each.clock_offset_seconds:+.1f}",
            )
            for each in found
        ],
        empty="No node has reported itself.",
    )
