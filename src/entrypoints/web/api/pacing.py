"""How runs in the background are spread: what bodies of replays and backfills have in common."""

from collections.abc import Mapping
from typing import Any, Final

#: See `Pacing`, and `ReplayOrder` for the key.
_RULES: Final = ("rate", "jitter", "at_once", "canary", "attempts", "key")


def pacing(body: object, content: Mapping[str, Any], *, author: str) -> dict[str, Any]:
    """Give the rules that a body says; the others have their defaults.

    `stop_at` may be null, which is never.
    """
    given = {name: getattr(body, name, None) for name in _RULES}
    rules = {name: value for name, value in given.items() if value is not None}
    if "stop_at" in content:
        rules["stop_at"] = getattr(body, "stop_at", None)
    return {**rules, "author": author}
