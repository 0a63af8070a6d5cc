"""Writing the little of TOML 1.0 that a jobs file needs; the standard library only reads it."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

#: What can be written: what JSON has but null, and moments.
Value: TypeAlias = str | int | float | datetime | Sequence[Any] | Mapping[str, Any]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPED = re.compile('[\x00-\x1f\x7f"\\\\]')


def write_table(path: tuple[str, ...], values: Mapping[str, Value | None]) -> str:
    """Write a table with its header; keys whose value is None are left away.

    >>> print(write_table(("tasks", "cron.daily"), {"id": 1, "cwd": None, "env": {"A": "b"}}))
    [tasks."cron.daily"]
    id = 1
    env = { A = "b" }
    """
    header = f"[{'.'.join(write_key(part) for part in path)}]"
    lines = (f"{write_key(k)} = {write_value(v)}" for k, v in values.items() if v is not None)
    return "\n".join((header, *lines))


def write_key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else write_value(text)


def write_value(value: Value) -> str:
    """Write a value on one line.

    Raises:
        ValueError: it is, or holds, a null or something else that TOML has not.
    """
    match value:
        case bool():  # before int, of which it is one
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case str():
            return f'"{_ESCAPED.sub(_escape, value)}"'
        case Sequence():
            return f"[{', '.join(map(write_value, value))}]"
        case Mapping():
            pairs = ", ".join(f"{write_key(k)} = {write_value(v)}" for k, v in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
    raise ValueError(f"TOML has no {'null' if value is None else type(value).__name__}")


def write_comment(text: str) -> str:
    """Write one comment line; what TOML forbids there becomes `?`."""
    return "# " + re.sub(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]", "?", text)


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    return _SHORT.get(char) or f"\\u{ord(char):04x}"
