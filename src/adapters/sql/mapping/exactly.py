"""Comparing texts to the last letter, in each database."""

from typing import Any

from sqlalchemy import ColumnElement, func


def exactly(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Ask whether a column has this text, and no blanks after it: `utf8mb4_bin` ignores them.

    What is equal is found by an index; its length is asked of that alone.
    """
    return (column == text) & (func.length(column) == func.length(text))
