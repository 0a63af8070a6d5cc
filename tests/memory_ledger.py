"""Ledgers in memory, each empty at its test's beginning."""

from collections.abc import Iterator

import pytest

from cronhare.testing.ledger import compiled_once, memory_engine, release

__all__ = ["compiled_once", "memory_engine", "memory_ledgers"]


@pytest.fixture(autouse=True)
def memory_ledgers() -> Iterator[None]:
    """Use the databases of a test again in the next one."""
    yield
    release()
