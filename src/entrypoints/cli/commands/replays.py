"""`cronhare replays list | show | stop | resume`: replays of many, and backfills."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cronhare.domain.lifecycle.replay_pace import ReplayState
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.domain.texts.listing import counted

from ...node_identity import this_actor
from ..bounds import MOST_LINES
from ..completion import REPLAYS
from ..output import Json, facts, json_line, print_json, print_line, state
from ..replay_bar import followed
from ..replay_options import By, this_author
from ..rows import Columns, print_rows
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.views.replays import ReplayView

_MINUTE: Final = 60

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
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Watch it until it ends, or Ctrl-C.")
    ] = False,
    json: Json = False,
) -> None:
    """Show one: what it is about, how far it has come, and what it waits for.

    With --follow there is a bar on a terminal, and the rest is told when it has ended.
    """
    container = open_ledger()
    replays, claims = container.replays(), container.claims()

    def look() -> "ReplayView":
        return replays.show(replay_id, now=claims.now())

    _show(followed(look, pause=time.sleep) if follow else look(), json=json)


def stop(replay_id: Id, *, by: By = None, json: Json = False) -> None:
    """Let no other begin; what has begun goes on."""
    container = open_ledger()
    now = container.ledger_time().now()
    replay = container.replays().stop(
        replay_id, author=this_author(by), now=now, actor=this_actor()
    )
    _say_if_over(replay, json=json)
    _show(replay, json=json)


def resume(replay_id: Id, *, json: Json = False) -> None:
    """Let a stopped one go on, to its end: its canary and --stop-at hold no more."""
    container = open_ledger()
    replay = container.replays().resume(
        replay_id, now=container.ledger_time().now(), actor=this_actor()
    )
    _say_if_over(replay, json=json)
    _show(replay, json=json)


def _say_if_over(replay: "ReplayView", *, json: bool) -> None:
    """Say that there was nothing to stop or resume."""
    if replay.state == ReplayState.DONE and not json:
        print_line(f"It is {replay.state} already: nothing was changed.")


def _show(replay: "ReplayView", *, json: bool) -> None:
    if json:
        print_json(replay)
        return
    is_backfill = replay.kind == "backfill"
    facts(
        [
            (replay.kind or "replay", replay.id),
            ("state", state(replay.state)),
            ("reason", replay.reason),
            ("ordered", replay.created_at),
            ("by", replay.author),
            ("of", json_line(replay.which)),
            ("waiting", _waiting(replay)),
            ("under way", _under_way(replay)),
            ("to its end", _say_left(replay)),
            ("succeeded", replay.succeeded),
            ("failed" if is_backfill else "failed again", replay.failed),
            ("had a run before" if is_backfill else "cannot be replayed", replay.refused or None),
            ("left out", _left_out(replay)),
            ("rate", None if replay.rate_per_second is None else f"{replay.rate_per_second:g}/s"),
            ("at once", _limit(replay)),
            ("canary", replay.canary or None),
            (
                "stops above",
                None if replay.stop_at is None else f"{100 * replay.stop_at:g} % going badly",
            ),
            ("attempts", replay.attempts),
            ("ended", replay.ended_at),
            ("to go on", _how_to_go_on(replay)),
        ]
    )


def _waiting(replay: "ReplayView") -> str:
    return str(replay.waiting) if replay.is_collected else f"{replay.waiting}, and counting"


def _under_way(replay: "ReplayView") -> str:
    failing = f", {replay.failing} of them failing" if replay.failing else ""
    if replay.state != ReplayState.ACTIVE:  # nobody counts on: they may have ended since
        return f"{replay.released}{failing}, when it {replay.state}" if replay.released else "0"
    return f"{replay.released}{failing}{', with a retry to come' if failing else ''}"


def _say_left(replay: "ReplayView") -> str | None:
    if replay.seconds_left is None:
        return None
    if replay.seconds_left < _MINUTE:
        return "about a minute at most"
    return f"about {counted(round(replay.seconds_left / _MINUTE), 'minute')}, at its pace so far"


def _left_out(replay: "ReplayView") -> str | None:
    return f"{replay.left_out} by calendars or blackout windows" if replay.left_out else None


def _limit(replay: "ReplayView") -> str | None:
    return None if replay.key is None else f"{replay.at_once} with the same {replay.key}"


def _how_to_go_on(replay: "ReplayView") -> str | None:
    is_broken = replay.which is None
    is_stopped = replay.state == ReplayState.STOPPED and replay.waiting and not is_broken
    return f"cronhare replays resume {replay.id}" if is_stopped else None
