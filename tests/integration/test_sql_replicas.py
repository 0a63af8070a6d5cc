"""Many schedulers and workers on one database, each with sessions of its own."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import attrs
import pytest
from sqlalchemy import URL, Connection, Select, event, select

from cronhare.adapters.sql.claims import reconciliation as statements
from cronhare.adapters.sql.claims.store import UNLOCKED_PLANS
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.tables.executions import BY_IDS
from cronhare.adapters.sql.tables.tables import executions, plans
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.retry import Complete
from cronhare.domain.schedules.planning import Plan, Planned
from cronhare.domain.schedules.schedule import Misfire, MisfirePolicy
from cronhare.ports.attempts import Busy, Finish, StartRequest
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import (
    LEASE,
    MINUTE,
    NOON,
    SUCCESS,
    Ledger,
    at_once,
    draft,
    empty,
    sql_ledger,
)
from tests.ports import NO_NACKS
from tests.services.databases import connect
from tests.services.lives import PATIENCE

pytestmark = pytest.mark.integration

NODES = 6
SCHEDULES = 600

Q = TypeVar("Q")
A = TypeVar("A")


@attrs.define
class Replicas:
    """Ledgers on one database, and the errors that they met."""

    ledgers: list[Ledger]
    errors: list[str] = attrs.field(factory=list)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOON)


@pytest.fixture(params=["mysql", "postgresql"], scope="module")
def url(request: pytest.FixtureRequest) -> URL:
    url: URL = request.getfixturevalue(f"migrated_{request.param}")
    return url


@pytest.fixture
def replicas(url: URL, clock: FrozenClock) -> Iterator[Replicas]:
    empty(url)
    with ExitStack() as stack:
        replicas = Replicas([])
        for _ in range(NODES):
            engine = open_engine(url.render_as_string(hide_password=False))
            stack.callback(engine.dispose)
            event.listen(
                engine,
                "handle_error",
                lambda met: replicas.errors.append(str(met.original_exception)),
            )
            replicas.ledgers.append(sql_ledger(clock, engine))
        yield replicas


def test_replicas_share_a_busy_minute_and_claim_each_key_once(
    replicas: Replicas, clock: FrozenClock
) -> None:
    first = replicas.ledgers[0]
    first.save(*(draft(f"job-{number}") for number in range(SCHEDULES)))
    first.plan_edited()
    clock.advance(MINUTE)

    def claim(number: int) -> list[tuple[str, int]]:
        ledger, claimed = replicas.ledgers[number], []
        while (batch := ledger.claim_due(node=f"node-{number}", limit=20)).looked:
            ledger.claims.mark_published(batch.claimed, now=ledger.now)
            claimed += [(one.schedule_name, one.id) for one in batch.claimed]
        return claimed

    answers = at_once(NODES, claim)

    claimed = [one for answer in answers for one in answer]
    assert sorted(name for name, _ in claimed) == sorted(f"job-{n}" for n in range(SCHEDULES))
    assert sorted(id_ for _, id_ in claimed) == [one.id for one in first.executions()]
    assert all(one.state is State.PUBLISHED for one in first.executions())
    assert sum(map(bool, answers)) > 1
    assert not replicas.errors


def test_replicas_that_plan_and_claim_the_same_at_once_record_each_instant_once(
    replicas: Replicas, clock: FrozenClock
) -> None:
    first = replicas.ledgers[0]
    every = [
        draft(f"job-{number}", misfire=Misfire(policy=MisfirePolicy.ALL)) for number in range(60)
    ]
    first.save(*every)
    clock.advance(3 * MINUTE)

    def plan_and_claim(number: int) -> list[int]:
        ledger, claimed = replicas.ledgers[number], []
        for _ in range(4):
            for batch in (ledger.plan_edited(), ledger.claim_due(limit=7)):
                claimed += [one.id for one in batch.claimed]
        while (batch := ledger.claim_due(limit=7)).looked:
            claimed += [one.id for one in batch.claimed]
        return claimed

    answers = at_once(NODES, plan_and_claim)

    claimed = [id_ for answer in answers for id_ in answer]
    recorded = [one for one in first.executions() if not one.task.is_system]
    assert sorted(claimed) == [one.id for one in recorded]
    assert Counter(one.schedule_name for one in recorded) == {one.name: 3 for one in every}


def test_what_a_late_plan_sets_back_is_claimed_no_second_time(
    replicas: Replicas, clock: FrozenClock
) -> None:
    late, other = replicas.ledgers[:2]
    late.save(draft("report"))
    claimed: list[Execution] = []

    def planner(planned: Planned) -> Plan:
        made = late.planner(planned)
        if not claimed:  # another replica plans and claims between this one's look and its plan
            other.plan_edited()
            clock.advance(MINUTE)
            claimed.extend(other.claim_due().claimed)
        return made

    late.claims.plan_edited(now=late.now, since=None, limit=9, node="late", planner=planner)
    set_back = late.claims.next_due()
    again = late.claim_due()

    assert [one.due_at for one in claimed] == [set_back] == [late.now]
    assert again.claimed == ()
    assert late.executions() == claimed
    assert late.claims.next_due() == late.now + MINUTE


def test_of_workers_that_wish_to_start_the_same_each_attempt_is_started_and_ended_once(
    replicas: Replicas, clock: FrozenClock
) -> None:
    first = replicas.ledgers[0]
    first.save(*(draft(f"job-{number}") for number in range(300)))
    first.plan_edited()
    clock.advance(MINUTE)
    executions = first.claim_due().claimed
    requests = [StartRequest(execution_id=one.id, attempt=1, nacks=NO_NACKS) for one in executions]

    def work(number: int) -> tuple[int, int]:
        attempts, node = replicas.ledgers[number].attempts, f"node-{number}"
        # Half of them come from the other end, in batches of other sizes.
        mine = requests if number % 2 else requests[::-1]
        started = ended = 0
        for place in range(0, len(mine), 8 + number):
            asked = mine[place : place + 8 + number]
            answers = until_free(
                asked,
                lambda these: attempts.start(these, now=clock.now(), node=node, lease=LEASE),
            )
            won = [one for one in answers if isinstance(one, Execution)]
            attempts.renew([one.id for one in won], now=clock.now(), node=node, lease=LEASE)
            ends = until_free(
                [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in won],
                lambda these: attempts.finish(these, now=clock.now(), node=node),
            )
            started += len(won)
            ended += ends.count(State.SUCCEEDED)
        return started, ended

    counts = at_once(NODES, work)

    assert sum(started for started, _ in counts) == len(executions)
    assert sum(ended for _, ended in counts) == len(executions)
    assert {one.state for one in first.executions()} == {State.SUCCEEDED}
    assert all(len(first.records.attempts(one.id)) == 1 for one in executions)


def until_free(asked: Sequence[Q], ask: Callable[[Sequence[Q]], Sequence[A | Busy]]) -> list[A]:
    """Ask once more for what another node holds just now: it judges a copy of the same, say."""
    answers: list[A] = []
    while asked:
        pairs = list(zip(asked, ask(asked), strict=True))
        answers += [answer for _, answer in pairs if not isinstance(answer, Busy)]
        asked = [one for one, answer in pairs if isinstance(answer, Busy)]
    return answers


def test_a_mark_takes_no_lock_that_a_start_of_the_same_needs(
    replicas: Replicas, clock: FrozenClock, url: URL
) -> None:
    first = replicas.ledgers[0]
    first.save(draft("ant"), draft("bee"))  # so few that the index of states looks short
    first.plan_edited()
    clock.advance(MINUTE)
    told = first.claim_due().claimed

    with beginning(url, [one.id for one in told]), ThreadPoolExecutor(1) as other:
        marked = other.submit(lambda: first.claims.mark_published(told, now=clock.now()))
        marked.result(PATIENCE)

    assert not replicas.errors
    assert {one.state for one in first.executions()} == {State.RUNNING}


@contextmanager
def beginning(url: URL, ids: list[int]) -> Iterator[None]:
    """Let two executions begin, as a worker does: hold the rows, then write them."""
    with connect(url) as session:
        worker = session.cursor()
        worker.execute("BEGIN")
        worker.execute("SELECT id FROM SchedulerExecution WHERE id IN (%s, %s) FOR UPDATE", ids)
        yield
        worker.execute(
            "UPDATE SchedulerExecution SET state = %s, check_at = NULL WHERE id IN (%s, %s)",
            (State.RUNNING.value, *ids),
        )
        session.commit()


# What one has locked keeps no other from what it has not


#: MariaDB makes a join of an IN with so many values.
BATCH = 1_000


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
