"""How a pause is told to a person."""

from typing import TYPE_CHECKING

from cronhare.domain.texts.moments import say_due

if TYPE_CHECKING:
    from cronhare.application.administration.views.schedules import PauseView


def say_pause(pause: "PauseView") -> str:
    """Say since when, until when, by whom and why something is or was paused."""
    until = f" until {say_due(pause.until)}" if pause.until else ""
    by = f" by {pause.by}" if pause.by else ""
    why = f": {pause.reason}" if pause.reason else ""
    return f"since {say_due(pause.since)}{until}{by}{why}"
