"""Whether a schedule may begin by itself without an instant: at a start, at a boot, to stay alive.

What is due at times is decided for each instant: see `circumstances`.
"""

from datetime import datetime
from typing import TypeAlias

import attrs

from .draft import ScheduleDraft
from .pause import Pause


@attrs.frozen
class Disabled:
    """A person has switched it off."""

    def __str__(self) -> str:
        return "disabled"


#: What keeps a schedule from beginning by itself; as a text it goes on after "it is".
Hindrance: TypeAlias = Disabled | Pause


def hindrance(draft: ScheduleDraft, pause: Pause | None, *, now: datetime) -> Hindrance | None:
    """Say what keeps a schedule from beginning by itself at *now*; None if nothing does.

    It can be run by hand all the same.
    """
    if not draft.status:
        return Disabled()
    return pause if pause is not None and pause.is_on(now) else None
