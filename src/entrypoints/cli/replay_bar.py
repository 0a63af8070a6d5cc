"""How far a replay or a backfill has come, while somebody watches."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from .progress import make_bar

if TYPE_CHECKING:
    from cronhare.application.administration.views.replays import ReplayView

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
