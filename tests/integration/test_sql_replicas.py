"""Many schedulers and workers on one database, each with sessions of its own."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TypeVar

import attrs
import pytest
from sqlalchemy import URL, event

from cronhare.adapters.sql.dialects import open_engine
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
