"""What params may be, and what happens to them on their way to a task."""

from typing import Any

#: So many bytes of JSON may be handed to a task. A message holds them as text inside of its own
#: JSON, which at worst doubles them: with this bound it is never too large for its own worker.
LARGEST_PARAMS = 100 * 1024


def fault_of_params(params: str) -> str | None:
    """Say what is wrong with params that are JSON text already; None if nothing is."""
    if 4 * len(params) <= LARGEST_PARAMS:  # no letter has more bytes
        return None
    size = len(params.encode(errors="replace"))
    if size <= LARGEST_PARAMS:
        return None
    return f"{size} bytes of JSON, {LARGEST_PARAMS} are allowed"


def force_instant(params: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Make a report run in the foreground, so that its errors come back.

    Where `options_interface.delivery` exists, its `instant` becomes true. Nothing is changed in
    place.

    >>> force_instant({"options_interface": {"delivery": {"to": "me", "instant": False}}})
    {'options_interface': {'delivery': {'to': 'me', 'instant': True}}}
    >>> force_instant({"controller": "X"})
    {'controller': 'X'}
    """
    match params:
        case {"options_interface": {"delivery": dict() as delivery} as options}:
            instant = {**options, "delivery": {**delivery, "instant": True}}
            return {**params, "options_interface": instant}
    return params
