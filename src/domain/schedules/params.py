"""The bound of params, and how they are changed on their way to a task."""

from typing import Any

import msgspec

#: The most bytes of JSON for a task. A message has them as text within its own JSON, which at
#: worst doubles them: with this bound no message is too large for our own workers.
LARGEST_PARAMS = 100 * 1024


def fault_of_params(params: str) -> str | None:
    """Say what is wrong with params, given as JSON text; None if nothing is."""
    if 4 * len(params) <= LARGEST_PARAMS:  # no character has more bytes
        return None
    size = len(params.encode(errors="replace"))
    if size <= LARGEST_PARAMS:
        return None
    return f"{size} bytes of JSON, {LARGEST_PARAMS} are allowed"


def same_params(one: str, other: str) -> bool:
    """Tell whether params, given as JSON text, are the same however they were written.

    >>> same_params('{"a": 1, "b": 2}', '{"b":2,"a":1}'), same_params('{"a":1}', '{"a":true}')
    (True, False)
    """
    try:
        first, second = (
            msgspec.json.encode(msgspec.json.decode(text), order="sorted") for text in (one, other)
        )
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return one == other
    return first == second


def force_instant(params: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Make a report run in the foreground, so that its errors come back.

    Where `options_interface.delivery` exists, its `instant` becomes true; in a copy.

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
