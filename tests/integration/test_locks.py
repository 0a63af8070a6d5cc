"""What a replica has locked keeps no other replica from what it has not."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import URL, Connection, Select, select

from cronhare.adapters.sql.claims import reconciliation as statements
from cronhare.adapters.sql.claims.store import UNLOCKED_PLANS
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.tables.executions import BY_IDS
from cronhare.adapters.sql.tables.tables import executions, plans
from cronhare.domain.nodes import NodeReport
from tests.frozen_clock import FrozenClock
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


@pytest.fixture(params=[20, 2_000], ids=lambda total: f"{total} plans")
def planned(request: pytest.FixtureRequest, url: URL) -> int:
    """So many schedules, all of them due."""
    total: int = request.param
    empty(url)
    engine = open_engine(url.render_as_string(hide_password=False))
    ledger = sql_ledger(FrozenClock(NOON), engine)
    ledger.save(*(draft(f"schedule {number}") for number in range(total)))
    for _ in range(3):
        ledger.plan_edited()
    engine.dispose()
    return total


@pytest.fixture
def two(url: URL) -> Iterator[tuple[Connection, Connection]]:
    engine = open_engine(url.render_as_string(hide_password=False))
    with engine.connect() as one, engine.connect() as other:
        yield one, other
    engine.dispose()


@pytest.mark.parametrize(
    "statement", [statements.UNLOCKED, BY_IDS], ids=["what is marked", "what is started"]
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


def test_plans_that_are_locked_leave_the_others_free(
    planned: int, two: tuple[Connection, Connection]
) -> None:
    one, other = two
    ids = list(one.scalars(select(plans.c.scheduler_id).order_by(plans.c.next_due_at.desc())))
    part = planned // 4

    locked = one.scalars(UNLOCKED_PLANS, {"ids": ids[:part]}).all()
    free = other.scalars(UNLOCKED_PLANS, {"ids": ids[part : 2 * part]}).all()

    assert (len(locked), len(free)) == (part, part)


def report(name: str, *, seen_at: datetime) -> NodeReport:
    return NodeReport(
        name=name, role="worker", host="ant", version="1", started_at=NOON, seen_at=seen_at
    )
