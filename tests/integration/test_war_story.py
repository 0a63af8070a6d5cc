"""The war story of S2.12 in docs/compatibility.md.

45,000 webhooks failed while a customer's server was down. Sent again at once when it came back,
they ended it three times: those that were given up, and those whose retries waited meanwhile.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random

import msgspec
import pytest
from sqlalchemy import Engine

from cronhare.adapters.sql.dialect import dialect_of
from cronhare.adapters.sql.writing import ARCHIVE, archive_values
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import UNRESOLVED, archive
from cronhare.domain.lifecycle.gates import gates_of
from cronhare.domain.lifecycle.orders import ReplayOrder, ReplayState
from cronhare.domain.lifecycle.retry_limits import CatchUp
from cronhare.domain.retries.limits import BudgetPolicy
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.retries.retry import Complete, Fail
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.schedule import Concurrency
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.attempts import Deferred, Finish, Refused, StartRequest
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import LEASE, NOON, SECOND, SUCCESS, TIMED_OUT, Ledger, sql_ledger
from tests.memory_ledger import memory_engine
from tests.ports import NO_NACKS

pytestmark = pytest.mark.integration

#: How many webhooks there were; a fifteenth of them shows the same with every change.
ALL = pytest.param(45_000, marks=pytest.mark.long)
CUSTOMERS = 300
RATE, AT_ONCE = 500.0, 5
PER_CUSTOMER = Concurrency(key="customer {params.customer}", limit=AT_ONCE)
IN_A_ROW = 25  # of one customer: more than may run at once
BUDGET, BATCH = BudgetPolicy(), 256
LASTS = 3 * SECOND
HOUR = timedelta(hours=1)
APART = 4 * HOUR / 45_000


def failed(number: int) -> Execution:
    return Execution(
        id=0,
        scheduler_id=1,
        schedule_name="webhook",
        key=f"manual-{number}",
        state=State.FAILED,
        task=TaskRef("worker", 7),
        params=f'{{"customer":{number % CUSTOMERS}}}',
        queue="cron_scheduler",
        attempt=6,
        deaths=5,
        version=9,
        due_at=NOON,
        executed_at=NOON,
        container_id="ant-1",
        finished_at=NOON,
    )


def waiting(number: int, scheduler_id: int) -> Execution:
    params = f'{{"customer":{number // IN_A_ROW % CUSTOMERS}}}'
    return msgspec.structs.replace(
        failed(number),
        scheduler_id=scheduler_id,
        params=params,
        concurrency_key=PER_CUSTOMER.key_of(params),
        state=State.RETRYING,
        attempt=3,
        deaths=2,
        finished_at=None,
        next_attempt_at=NOON + number * APART,
        last_error="500",
    )


def insert(engine: Engine, executions: Sequence[Execution]) -> None:
    with engine.begin() as connection:
        dialect_of(engine).insert_executions(connection, executions)


class Server:
    """What the customers' server sees: when attempts start, and how many of one customer run."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.clock = ledger, ledger.clock
        self.catch_up = CatchUp(budget=BUDGET, free_at=ledger.now)
        self.coming = defaultdict[datetime, list[Execution]](list)
        self.running = defaultdict[datetime, list[Execution]](list)
        self.started = list[datetime]()
        self.busy, self.worst, self.held = Counter[str](), 0, 0

    def serve(self) -> None:
        """Go on until nothing waits and nothing runs."""
        while self.coming or self.running:
            # What is deferred is given places one after the other; so is what runs, its end.
            at = min(next(iter(times)) for times in (self.coming, self.running) if times)
            self.clock.advance(at - self.clock.now())
            for_room = self._end(self.running.pop(at, []), at)
            self._start([*for_room, *self.coming.pop(at, [])], at)

    def _end(self, over: list[Execution], at: datetime) -> Sequence[Execution]:
        done = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in over]
        self.ledger.attempts.finish(done, now=at, node="ant")
        self.busy.subtract(one.params for one in over)
        gates = {gate for one in over for gate in gates_of(one)}
        return self.ledger.claims.let_go(gates, now=at).executions if gates else ()

    def _start(self, asked: list[Execution], at: datetime) -> None:
        for part in range(0, len(asked), BATCH):
            wanted = [
                StartRequest(execution_id=one.id, attempt=one.attempt, nacks=NO_NACKS)
                for one in asked[part : part + BATCH]
            ]
            for answer in self.ledger.attempts.start(
                wanted, now=at, node="ant", lease=LEASE, catch_up=self.catch_up
            ):
                match answer:
                    case Execution() as one:
                        self.running[at + LASTS].append(one)
                        self.started.append(at)
                        self.busy[one.params] += 1
                        self.worst = max(self.worst, self.busy[one.params])
                    case Deferred(execution=one):
                        assert one.next_attempt_at is not None
                        self.coming[one.next_attempt_at].append(one)
                    case other:
                        assert isinstance(other, Refused)
                        self.held += other.gate is not None


@pytest.mark.parametrize("webhooks", [3_000, ALL])
def test_retries_that_waited_through_an_outage_spare_the_server(webhooks: int) -> None:
    clock = FrozenClock(NOON + 5 * HOUR)
    engine, back_at = memory_engine(clock), clock.now()
    ledger = sql_ledger(clock, engine)
    webhook = ScheduleDraft(
        name="webhook",
        task=TaskRef("worker", 7),
        concurrency=PER_CUSTOMER,
    )
    ledger.schedules.save([webhook], source=None, now=NOON)
    [stored] = ledger.schedules.schedules(["webhook"])
    insert(engine, [waiting(number, stored.id) for number in range(webhooks)])
    server = Server(ledger)
    server.coming[back_at] = ledger.executions()

    server.serve()

    most, started = BUDGET.most, server.started
    assert len(started) == webhooks
    assert all(
        later - first >= BUDGET.window
        for first, later in zip(started, started[most:], strict=False)
    )
    assert started[-1] - back_at < (webhooks / most) * BUDGET.window  # and no later than needed
    assert server.worst == AT_ONCE
    assert server.held > 0  # or the budget alone had spared each customer
    ended = ledger.executions()
    assert Counter((one.state, one.attempt, one.deaths) for one in ended) == {
        (State.SUCCEEDED, 3, 2): webhooks
    }


@pytest.mark.parametrize("webhooks", [3_000, ALL])
def test_failures_that_are_released_together_spare_the_server(webhooks: int) -> None:
    clock = FrozenClock(NOON)
    engine = memory_engine(clock)
    ledger = sql_ledger(clock, engine)
    attempts, replays = ledger.attempts, ledger.replays
    insert(engine, [failed(number) for number in range(webhooks)])
    archived = [archive(one, Fail("500"), TIMED_OUT, NOON) for one in ledger.executions()]
    with engine.begin() as connection:
        connection.execute(ARCHIVE, [archive_values(row) for row in archived])
    order = ReplayOrder(which=UNRESOLVED, rate=RATE, key="params.customer", at_once=AT_ONCE)
    replays.order(order, now=clock.now())

    chance, begun, running = Random(45), list[datetime](), dict[datetime, list[Execution]]()
    busy, worst, state = Counter[str](), 0, ReplayState.ACTIVE
    while state is ReplayState.ACTIVE:
        for ends_at in sorted(at for at in running if at <= clock.now()):
            over = running.pop(ends_at)
            busy.subtract(one.params for one in over)
            done = [Finish(execution=one, ran=SUCCESS, verdict=Complete()) for one in over]
            attempts.finish(done, now=clock.now(), node="ant")
        advance = replays.advance(
            now=clock.now(), node="ant", policy=RetryPolicy(), random_fraction=chance.random
        )
        assert advance is not None
        begun += [one.next_attempt_at or NOON for one in advance.executions]
        busy.update(one.params for one in advance.executions)
        worst = max(worst, *busy.values(), 0)
        clock.advance(max(advance.replay.next_at - clock.now(), timedelta(milliseconds=1)))
        wanted = [
            StartRequest(execution_id=one.id, attempt=one.attempt, nacks=NO_NACKS)
            for one in advance.executions
        ]
        started = attempts.start(wanted, now=clock.now(), node="ant", lease=LEASE)
        assert all(isinstance(one, Execution) for one in started)
        running[clock.now() + LASTS] = [one for one in started if isinstance(one, Execution)]
        state = advance.replay.state

    most = int(RATE)
    assert (state, len(begun)) == (ReplayState.DONE, webhooks)
    assert worst == AT_ONCE
    assert all(
        later - first >= SECOND - timedelta(microseconds=most)
        for first, later in zip(begun, begun[most:], strict=False)
    )
    states = Counter(one.state for one in ledger.executions())
    assert states == {State.SUCCEEDED: webhooks}
