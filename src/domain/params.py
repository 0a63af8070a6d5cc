"""What happens to params on their way to a task."""

from typing import Any


def force_instant(params: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Make a report run in the foreground, so that its errors come back (S1, "instant mode").

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
