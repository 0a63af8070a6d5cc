"""Edits of a form: what somebody has changed in it, and two of them put together."""

from collections.abc import Mapping
from typing import Final

import msgspec

from .schedule_form import FIELDS, TABLE_OF

#: Fields of which one stands in the other's place: both are said where one is edited.
_EITHER: Final = frozenset({"task", "topic"})


def edited_of(values: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """Give the values that differ from those an edit began with; of a table all its parts."""
    differing = _differing(values, base)
    if differing & _EITHER:
        differing |= _EITHER
    tables = {TABLE_OF[name] for name in differing if name in TABLE_OF}
    return {
        name: values[name] for name in FIELDS if name in differing or TABLE_OF.get(name) in tables
    }


def merged(
    base: Mapping[str, str], yours: Mapping[str, str], current: Mapping[str, str]
) -> tuple[dict[str, str], set[str]]:
    """Merge two edits of *base*; answers the values, and which of them both have edited.

    Where only one has edited a field, that holds; where both have, yours does, and is told.
    """
    mine, theirs = _differing(yours, base), _differing(current, base)
    values = {name: yours[name] if name in mine else current[name] for name in FIELDS}
    return values, {name for name in mine & theirs if yours[name] != current[name]}


def _differing(values: Mapping[str, str], base: Mapping[str, str]) -> set[str]:
    return {name for name in FIELDS if values[name] != base.get(name, "")}


def read_base(text: str) -> dict[str, str]:
    """Read the values that an edit began with, as its form brought them back."""
    try:
        found = msgspec.json.decode(text)  # no text of it has a lone surrogate
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if name in FIELDS and type(value) is str}
