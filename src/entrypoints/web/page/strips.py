"""The story of an execution as one line: its waits and its attempts, as long as they took."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from cronhare.application.administration.stories import StoryView

#: The width of the line, in its own units, and the least that a piece has of it.
WIDTH: Final = 1_000
_LEAST: Final = 4.0


@attrs.frozen(kw_only=True)
class Piece:
    """A part of the line, in a tone; *attempt* is None where it waited."""

    x: float
    width: float
    tone: str
    attempt: int | None


def strip(story: StoryView) -> Sequence[Piece]:
    """Draw a story, from the first of its steps to the last; what goes on ends now."""
    spans: list[tuple[datetime, datetime, str, int | None]] = []
    for step in story.steps:
        if step.kind == "stands" or step.since is None:
            continue
        number = None if step.attempt is None else step.attempt.attempt
        tone = "waited" if step.tone is None else step.tone.value
        spans.append((step.since, step.until or story.now, tone, number))
    if not spans:
        return ()
    since = min(span[0] for span in spans)
    whole = max(max(span[1] for span in spans) - since, timedelta(milliseconds=1))
    return [
        Piece(
            x=round(min((begin - since) / whole * WIDTH, WIDTH - _LEAST), 1),
            width=round(max((end - begin) / whole * WIDTH, _LEAST), 1),
            tone=tone,
            attempt=number,
        )
        for begin, end, tone, number in spans
    ]
