"""What a replica does with a batch by its ids keeps no other replica from another batch."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL, Connection, Select, select, update

from cronhare.adapters.memory.clock import FrozenClock
from cronhare.adapters.sql import open_engine
from cronhare.adapters.sql.claims import statements
from cronhare.adapters.sql.mapping.execution_rows import BY_IDS
from cronhare.adapters.sql.schema.tables import by_id, executions
from tests.integration.ledgers import MINUTE, NOON, draft, empty, sql_ledger

pytestmark = pytest.mark.integration

#: MariaDB makes a join of an IN with so many values.
BATCH = 1_000


@pytest.fixture(params=["mysql", "postgresql"], scope="module")
def url(request: pytest.FixtureRequest) -> URL:
    url: URL = request.getfixturevalue(f"migrated_{request.param}")
    return url


@pytest.fixture(scope="module")
def batches(url: URL) -> tuple[list[int], list[int]]:
    """Two batches in a table that is so small that to read all of it looks cheap."""
    empty(url)
    engine = open_engine(url.render_as_string(hide_password=False))
    clock = FrozenClock(NOON)
    ledger = sql_ledger(clock, engine)
    ledger.save(*(draft(f"schedule {number}") for number in range(2 * BATCH)))
    for _ in range(3):
        ledger.plan_edited()
    clock.advance(MINUTE)
    claimed = [len(ledger.claim_due().claimed) for _ in range(2)]
    with engine.connect() as connection:
        ids = list(connection.scalars(select(executions.c.id).order_by(executions.c.id)))
    engine.dispose()
    assert claimed == [BATCH, BATCH]
    return ids[:BATCH], ids[BATCH:]


@pytest.fixture
def two(url: URL) -> Iterator[tuple[Connection, Connection]]:
    engine = open_engine(url.render_as_string(hide_password=False))
    with engine.connect() as one, engine.connect() as other:
        yield one, other
    engine.dispose()


@pytest.mark.parametrize(
    "statement", [statements.ALL, BY_IDS], ids=["what is marked", "what is started"]
)
def test_a_batch_that_is_locked_leaves_the_other_free(
    two: tuple[Connection, Connection],
    batches: tuple[list[int], list[int]],
    statement: Select[Any],
) -> None:
    look = statement.with_for_update(skip_locked=True)

    found = [
        len(one.execute(look, {"ids": ids}).all()) for one, ids in zip(two, batches, strict=True)
    ]

    assert found == [BATCH, BATCH]


def test_a_batch_that_is_written_leaves_the_other_free(
    two: tuple[Connection, Connection], batches: tuple[list[int], list[int]]
) -> None:
    one, other = two
    written = one.execute(
        by_id(update(executions)).values(version=executions.c.version + 1), {"ids": batches[0]}
    )
    look = statements.UNLOCKED

    assert written.rowcount == BATCH
    assert len(other.execute(look, {"ids": batches[1]}).all()) == BATCH
