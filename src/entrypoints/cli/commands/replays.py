"""`cronhare replays list | show | stop | resume`: replays of many, and backfills."""

from typing import TYPE_CHECKING, Annotated

import typer

from cronhare.domain.lifecycle.replay_pace import ReplayState
from cronhare.domain.messages import LARGEST_ID

from ...node_identity import this_actor
from ..bounds import MOST_LINES
from ..completion import REPLAYS
from ..output import Json, print_line, state
from ..replay_options import By, Follow, this_author
from ..replay_output import show_replay, watch_replay
from ..rows import Columns, print_rows
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.views.failures import ReplayView

Id = Annotated[
    int,
    typer.Argument(
        min=1, max=LARGEST_ID, help="A number from `replays list`.", autocompletion=REPLAYS
    ),
]


def list_(
    *,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LINES, help="At most so many.")] = 20,
    json: Json = False,
) -> None:
    """List replays, newest first."""
    container = open_ledger()
    found = container.replays().list(limit=limit, now=container.ledger_time().now())
    columns: Columns[ReplayView] = {
        "ID": "id",
        "KIND": "kind",
        "STATE": lambda replay: state(replay.state),
        "ORDERED": "created_at",
        "WAITING": "waiting",
        "UNDER WAY": "released",
        "SUCCEEDED": "succeeded",
        "FAILED": "failed",
        "REASON": lambda replay: replay.reason or "",
    }
    print_rows(
        found,
        columns,
        json=json,
        empty="No replay of many and no backfill was ordered.",
        spare=("KIND",),
        elastic=("REASON",),
    )


def show(
    replay_id: Id,
    *,
    follow: Follow = False,
    json: Json = False,
) -> None:
    """Show one: what it is about, how far it has come, and what it waits for.

    With --follow there is a bar on a terminal, and the rest is told when it has ended.
    """
    container = open_ledger()
    if follow:
        watch_replay(container, replay_id, json=json)
    else:
        show_replay(
            container.replays().show(replay_id, now=container.ledger_time().now()), json=json
        )


def stop(replay_id: Id, *, by: By = None, json: Json = False) -> None:
    """Let no other begin; what has begun goes on."""
    container = open_ledger()
    now = container.ledger_time().now()
    replay = container.replays().stop(
        replay_id, author=this_author(by), now=now, actor=this_actor()
    )
    _say_if_over(replay, json=json)
    show_replay(replay, json=json)


def resume(replay_id: Id, *, json: Json = False) -> None:
    """Let a stopped one go on, to its end: its canary and --stop-at hold no more."""
    container = open_ledger()
    replay = container.replays().resume(
        replay_id, now=container.ledger_time().now(), actor=this_actor()
    )
    _say_if_over(replay, json=json)
    show_replay(replay, json=json)


def _say_if_over(replay: "ReplayView", *, json: bool) -> None:
    """Say that there was nothing to stop or resume."""
    if replay.state == ReplayState.DONE and not json:
        print_line(f"It is {replay.state} already: nothing was changed.")
