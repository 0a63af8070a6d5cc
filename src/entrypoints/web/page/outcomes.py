"""How states are shown: a tone, and a glyph besides, as colour alone tells some people nothing."""

from typing import Final

import attrs
from markupsafe import Markup

from cronhare.domain.execution import State


@attrs.frozen
class Look:
    """A tone is a class of the style sheet; the glyph has a shape of its own."""

    tone: str
    glyph: str


LOOKS: Final = {
    State.CLAIMED: Look("waiting", "○"),
    State.PUBLISHED: Look("waiting", "○"),
    State.HELD: Look("waiting", "‖"),
    State.RUNNING: Look("running", "▶"),
    State.RETRYING: Look("retrying", "↻"),
    State.SUCCEEDED: Look("succeeded", "✓"),
    State.FAILED: Look("failed", "✕"),
    State.QUARANTINED: Look("quarantined", "◆"),
    State.CANCELLED: Look("idle", "⊘"),
    State.SKIPPED: Look("idle", "»"),
    State.HANDED_OVER: Look("idle", "→"),
}
#: How alerts are shown, by their severity; what is over is shown as what has succeeded.
SEVERITIES: Final = {
    "critical": Look("failed", "▲"),
    "high": Look("failed", "△"),
    "warning": Look("retrying", "△"),
    "over": LOOKS[State.SUCCEEDED],
}
_UNKNOWN: Final = Look("idle", "?")


def look(state: State | str) -> Look:
    """Give the look of a state, also of one that a row names and we do not know."""
    try:
        return LOOKS[State(state)]
    except ValueError:
        return _UNKNOWN


def severity(word: str) -> Markup:
    """Show how bad an alert is, or that it is over."""
    return _badge(SEVERITIES.get(word, _UNKNOWN), word)


def badge(state: State | str, word: str | None = None) -> Markup:
    """Show a state, or another *word* in its look."""
    return _badge(look(state), word or str(state))


def tone(state: State | str) -> str:
    """Give the class of a state."""
    return look(state).tone


def glyph(state: State | str) -> str:
    """Give the glyph of a state."""
    return look(state).glyph


def _badge(one: Look, word: str) -> Markup:
    return Markup(
        '<span class="badge {}"><span class="glyph" aria-hidden="true">{}</span>{}</span>'
    ).format(one.tone, one.glyph, word)


FILTERS: Final = {"badge": badge, "severity": severity, "tone": tone, "glyph": glyph}
