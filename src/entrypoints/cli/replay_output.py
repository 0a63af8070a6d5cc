"""A replay or a backfill as people see it, and while they watch it."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from cronhare.domain.lifecycle.replay_pace import ReplayState
from cronhare.domain.texts.words import counted

from .output import facts, json_line, print_json, print_line, state
from .progress import make_bar

if TYPE_CHECKING:
    from cronhare.application.administration.views.failures import ReplayView

    from ..container import Container

_MINUTE: Final = 60


def tell_begun(
    container: "Container",
    begun: "ReplayView",
    lines: Sequence[str],
    *,
    follow: bool,
    json: bool,
) -> None:
    """Say in *lines* what was ordered, then how to watch and stop it; or watch it at once."""
    if not json:
        for line in lines:
            print_line(line)
    if follow:
        watch_replay(container, begun.id, json=json)
    elif json:
        print_json(begun)
    else:
        print_line(
            f"How it goes on: cronhare replays show {begun.id} -f; "
            f"to stop it: cronhare replays stop {begun.id}"
        )


def watch_replay(container: "Container", replay_id: int, *, json: bool) -> None:
    """Watch one until it ends, with a bar on a terminal; then show it.

    Raises:
        NotFound: there is none of that number.
    """
    replays, clock = container.replays(), container.ledger_time()

    def look() -> "ReplayView":
        return replays.show(replay_id, now=clock.now())

    show_replay(followed(look, pause=time.sleep), json=json)


def show_replay(replay: "ReplayView", *, json: bool) -> None:
    """Show what it is about, how far it has come, and what it waits for."""
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
    is_stopped = replay.state == ReplayState.STOPPED and replay.waiting
    return f"cronhare replays resume {replay.id}" if is_stopped else None


#: Seconds between two looks.
LOOK_EVERY: Final = 1.0

_GOES_ON: Final = "active"


def followed(look: "Callable[[], ReplayView]", *, pause: Callable[[float], None]) -> "ReplayView":
    """Look again and again, with a bar on a terminal, until it is done or stopped."""
    bar = make_bar() if sys.stderr.isatty() else None
    with bar or nullcontext():
        task = None if bar is None else bar.add_task("", total=None)
        while True:
            replay = look()
            done, total = ended_of(replay)
            if bar is not None and task is not None:
                said = f"{replay.kind or 'replay'} {replay.id}: {replay.failed} failed"
                shown = total if replay.is_collected else None  # it is still being counted
                bar.update(task, completed=done, total=shown, description=said)
            if replay.state != _GOES_ON:
                return replay
            pause(LOOK_EVERY)


def ended_of(replay: "ReplayView") -> tuple[int, int]:
    """Say how many have come to an end, of how many."""
    done = replay.succeeded + replay.failed + replay.refused + replay.left_out
    return done, done + replay.released + replay.waiting
