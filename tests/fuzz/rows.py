"""What people write, and rows of executions, spoilt by hand: each cell with what SQLite takes.

The site is the application on a frozen clock, with a ledger in a file and a broker in memory. After
each entry all that reads rows is asked, and an innocent schedule that is due in the same minute is
claimed, published, started and finished.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from itertools import count, product
from pathlib import Path

from cronhare.adapters.memory.broker import MemoryBroker
from cronhare.adapters.memory.inspection import MemoryInspection
from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.adapters.sql.records.inspection import SqlInspection
from cronhare.adapters.sql.schema.tables import metadata
from cronhare.application.administration.difference import difference
from cronhare.application.administration.explain import explain
from cronhare.application.administration.explanations import Explanations
from cronhare.application.administration.lookup import NotFound
from cronhare.application.administration.queries import Queries
from cronhare.application.administration.retry_limits import RetryLimitDesk
from cronhare.application.administration.schedule_lists import ScheduleLists
from cronhare.application.administration.views.work import NodesView
from cronhare.application.publishing.execution_publisher import ExecutionPublisher
from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.application.scheduling.reconcile import Reconciler
from cronhare.domain.diagnosis.ledger import LedgerFacts, judge_activity
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.backfill import BackfillOrder
from cronhare.domain.lifecycle.failure_filter import EVERY_FAILURE, FailureFilter
from cronhare.domain.lifecycle.gates import key_gate
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.lifecycle.replay_pace import ReplayState
from cronhare.domain.lifecycle.retry_policies import RetryPolicies
from cronhare.domain.messages.signing import Seal
from cronhare.domain.nodes import FORGOTTEN_AFTER, NodeReport
from cronhare.domain.retries.breaker import BreakerPolicy
from cronhare.domain.retries.budget import BudgetPolicy
from cronhare.domain.retries.limits import RetryLimits
from cronhare.domain.retries.retry import RetryPolicy
from cronhare.domain.schedules.calendars import CalendarDraft
from cronhare.domain.schedules.conditions import Conditions
from cronhare.domain.schedules.edits import FULL_COMPARISON
from cronhare.domain.schedules.pause import Pause
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.json_text import as_json
from cronhare.ports.attempts import Finish, Limited
from cronhare.ports.errors import LedgerRefused, LedgerUnavailable
from cronhare.ports.records import ExecutionFilter, Retention
from cronhare.ports.schedules import ScheduleFilter
from tests.frozen_clock import FrozenClock
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
from tests.integration.ledgers import FAILURE, IN_30_S, NOON, Ledger, draft, sql_ledger
from tests.unit.application.house import Inline

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)

#: No log line is longer, whatever is in a row.
LONGEST_LINE = 4_000

#: What is written into each column, as SQL.
VALUES = {
    "NULL": "NULL",
    "no text": "''",
    "a word": "'garbage'",
    "a BLOB": "x'00ff'",
    "4 MiB of BLOB": "zeroblob(4194304)",
    "a long text": "hex(zeroblob(100000))",
    "a NUL": "'a' || char(0) || 'b'",
    "no UTF-8": "CAST(x'ff2a' AS TEXT)",
    "signs and an emoji": "'ü\u202e🚀' || char(27) || '[2J'",
    "-1": "-1",
    "2": "2",
    "the largest number": "9223372036854775807",
    "the smallest number": "-9223372036854775808",
    "a fraction": "0.5",
    "infinity": "9e999",
    "brackets": f"'{'[' * 4000}'",
    "a long number": f"""'{{"backoff": {{"multiplier": 2{"0" * 400}}}}}'""",
    "the first day": "'0001-01-01 00:00:00.000000'",
    "the last moment": "'9999-12-31 23:59:59.999999'",
    "a date alone": "'2026-01-01'",
    "a week": "'2026-W01-1'",
    "no such day": "'2026-02-31 25:61:61.000000'",
    "a zone at the edge": "'9999-12-31T23:59:59-14:00'",
}

#: The node whose report is spoilt, and the one that begins beside it.
GUEST, BESIDE = "guest-1-0a1b2c3d4e5f6071", "beside-2-0a1b2c3d4e5f6071"

#: What people write, and executions, each with the condition that finds the rows of the spoilt
#: schedule.
TABLES = {
    "Scheduler": "id = {id}",
    "Calendar": "name = 'spoilt'",
    "CalendarWindow": "calendar = 'spoilt'",
    "SchedulerExecution": "scheduler_id = {id}",
}

#: What attempts that fail are held against; the budget is never spent.
LIMITS = RetryLimits(budget=BudgetPolicy(most=1_000), breaker=BreakerPolicy())

#: The short form tries every so many-th cell.
SHORT = 41


def _christmas(name: str) -> CalendarDraft:
    """Make a calendar of a day that is over: each entry takes days, and hundreds a year."""
    return CalendarDraft(name=name, timezone="UTC", windows=(("2025-12-25", "Christmas Day"),))


class Lines(logging.Handler):
    """What was logged since the last look."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


class Desk:
    """A replica on a ledger, and somebody who writes into its file."""

    def __init__(self, path: Path, ledger: Ledger, inspection: SqlInspection) -> None:
        self.path, self.ledger, self.inspection = path, ledger, inspection
        self.limits = RetryLimitDesk(limits=ledger.limits, trail=ledger.trail, now=ledger.clock.now)
        self.queries = Queries(
            schedules=ledger.schedules,
            records=ledger.records,
            names=ledger.asked,
            nodes=ledger.nodes,
            broker=MemoryInspection(),
            retry_delay=timedelta(seconds=30),
            policy=RetryPolicy(),
            now=ledger.clock.now,
        )
        self.explanations = Explanations(
            schedules=ledger.schedules,
            records=ledger.records,
            nodes=ledger.nodes,
            replays=ledger.replays,
            limits=self.limits,
            names=ledger.asked,
            now=ledger.clock.now,
        )
        self.pages = ScheduleLists(
            lists=ledger.lists,
            records=ledger.records,
            names=ledger.asked,
            policy=RetryPolicy(),
            now=ledger.clock.now,
        )
        self.broker = MemoryBroker(ledger.clock)
        publisher = ExecutionPublisher(
            broker=self.broker,
            claims=ledger.claims,
            run_system_task=lambda *_: None,
            seal=Seal(),
            in_memory=False,
        )
        self.dispatcher = Dispatcher(
            claims=ledger.claims, publisher=publisher, executor=Inline(), node="ant"
        )
        self.reconciler = Reconciler(
            claims=ledger.claims,
            attempts=ledger.attempts,
            broker=self.broker,
            publisher=publisher,
            policies=RetryPolicies(RetryPolicy()),
            seal=Seal(),
            lease=timedelta(seconds=30),
            random_fraction=lambda: 0.0,
        )
        self.lines = Lines()
        self._numbers = count(1)
        ledger.schedules.save([], source=None, now=ledger.now, calendars=[_christmas("innocent")])
        ledger.add("innocent", conditions=Conditions(skip_on=("innocent",)))
        self.turn()

    def turn(self) -> None:
        """Do what is due."""
        self.dispatcher.tick(self.ledger.now)
        self.reconciler.tick(self.ledger.now)

    def shell(self, *statements: str) -> None:
        """Write as another program does: without our driver, and without foreign keys."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    def spoil(self, table: str, column: str, value: str, *, holding: str = "") -> Answer:
        """Give a schedule rows in each table and in each state, and spoil a cell of them.

        With *holding*, its runs wait at that gate.
        """
        name = f"spoilt-{next(self._numbers)}"
        id_ = self._victim(name)
        where = TABLES[table].format(id=id_)
        if holding:
            gate = holding.format(id=id_)
            self.shell(
                f"UPDATE SchedulerExecution SET state = 'held', held_by = '{gate}', "
                f"concurrency_key = 'spoilt', expires_at = due_at WHERE scheduler_id = {id_}"
            )
        try:
            self.shell(f'UPDATE "{table}" SET {column} = {value} WHERE {where}')
        except sqlite3.Error:
            return Answer.REFUSED  # the database itself did
        try:
            return self._look(name)
        finally:
            self._clear()

    def innocent(self) -> None:
        """See `Site.innocent`."""
        self.ledger.clock.advance(MINUTE)
        self.turn()
        runs = self._listed("innocent")
        minute = self.ledger.now.replace(second=0, microsecond=0)
        due = [run for run in runs if run.due_at == minute]
        if not due or due[0].state is not State.PUBLISHED:
            raise Mishandled(f"the innocent is not published: {[run.state for run in runs]}")
        if self.ledger.succeeded(due[0]).state is not State.SUCCEEDED:
            raise Mishandled("the innocent did not succeed")
        while (delivery := self.broker.receive(MAIN_QUEUE)) is not None:
            self.broker.ack(delivery)
        if long := [line for line in self.lines.said if len(line) > LONGEST_LINE]:
            raise Mishandled(f"a log line of {len(long[0])} letters")
        self.lines.said.clear()

    def _victim(self, name: str) -> int:
        self.ledger.schedules.save(
            [], source=None, now=self.ledger.now, calendars=[_christmas("spoilt")]
        )
        conditions = Conditions(max_runs=1_000_000, skip_on=("spoilt",))
        id_ = self.ledger.add(name, conditions=conditions)
        over = Pause(since=self.ledger.now - DAY, until=self.ledger.now, by="ann", reason="move")
        self.ledger.schedules.pause(name, over, now=self.ledger.now)
        self.ledger.clock.advance(MINUTE)
        self.turn()
        self.ledger.clock.advance(MINUTE)
        self.turn()
        _, second = self._listed(name)
        self.ledger.started(second)
        failed = self.ledger.failed(f"{name}-archived")
        self.shell(
            f"UPDATE FailedTask SET scheduler_id = {id_} WHERE id = {failed.id}",
            "INSERT INTO AttemptOutput (execution_id, attempt, stdout_head, stdout_tail, "
            "stdout_bytes, stderr_head, stderr_tail, stderr_bytes) "
            f"VALUES ({second.id}, 1, 'a', 'b', 2, 'c', 'd', 2)",
        )
        self._report(GUEST)
        spoilt = FailureFilter(schedule=f"{name}-archived")
        past = BackfillOrder(
            scheduler_id=id_,
            schedule=name,
            since=self.ledger.now - 10 * MINUTE,
            until=self.ledger.now,
            rate=0.01,
        )
        for order in (ReplayOrder(which=spoilt, rate=0.01), past):
            self.ledger.replays.order(order, now=self.ledger.now)
        self._go_on_with_replays()
        self._fail_under_limits()
        self.ledger.attempts.count_unheard("orders.due", now=self.ledger.now)
        return id_

    def _go_on_with_replays(self) -> list[ReplayState]:
        """Take what is due of them a step on, and say how they stand."""
        for _ in range(5):
            advance = self.ledger.replays.advance(
                now=self.ledger.now, node="ant", policy=RetryPolicy(), random_fraction=lambda: 0.0
            )
            if advance is None:
                break
        return [replay.state for replay in self.ledger.replays.replays(limit=9)]

    def _fail_under_limits(self) -> None:
        """Let an attempt of the innocents' queue and task fail, which is answered in any case."""
        running = self.ledger.started(self.ledger.claimed(f"failing-{next(self._numbers)}"))
        finish = Finish(execution=running, ran=FAILURE, verdict=IN_30_S, limits=LIMITS)
        [answer] = self.ledger.attempts.finish([finish], now=self.ledger.now, node="ant")
        if not isinstance(answer, State | Limited):
            raise Mishandled(f"a failure under limits is answered {answer}")

    def _report(self, name: str) -> None:
        now = self.ledger.now
        report = NodeReport(
            name=name, role="up", host="here", version="1", started_at=now, seen_at=now
        )
        self.ledger.nodes.report(report, kept_for=FORGOTTEN_AFTER)

    def _look(self, name: str) -> Answer:
        """Let everything that reads rows read them, now and a day later, and say what it tells."""
        told: list[object] = [*self._read(name)]
        for passing in (MINUTE, FULL_COMPARISON, DAY):
            self.ledger.clock.advance(passing)
            self.turn()
            told += [state for state in self._go_on_with_replays() if state is ReplayState.STOPPED]
            told += self._read(name)
        try:
            self._fail_under_limits()
        except LedgerUnavailable as full:
            if "the last number" not in str(full):  # which leaves no row another one
                raise
            told.append(full)
        with suppress(LedgerRefused):
            self.ledger.attempts.count_unheard("orders.due", now=self.ledger.now)
        self.ledger.records.clean_up(now=self.ledger.now, retention=Retention())
        before = len(self.lines.said)
        self.ledger.clock.advance(timedelta(seconds=5))
        self.turn()
        if (again := self.lines.said[before:]) and "broken" in " ".join(again):
            raise Mishandled(f"told with every tick: {again[0][:200]}")
        return Answer.REFUSED if any(told) else Answer.HANDLED

    def _read(self, name: str) -> Iterator[object]:
        records, schedules = self.ledger.records, self.ledger.schedules
        for stored in schedules.schedules():
            yield stored.problem
            explain(stored, self.ledger.now, records=records, now=self.ledger.now)
        difference([draft("innocent"), draft(name)], schedules.schedules(), source="jobs")
        for run in self.queries.executions(ExecutionFilter(limit=200)):
            shown = self.explanations.of_execution(run.id)
            attempts = [*shown.attempts, *self.queries.execution(run.id).attempts]
            yield run.problem
            yield from (one.problem for one in attempts)
            yield from (one.problem for one in self.queries.output(run.id).outputs)
        failures = self.queries.failures(EVERY_FAILURE, limit=200)
        yield from (row.problem for row in failures)
        nodes = self._nodes()
        yield nodes.broken or None
        limits = (self.limits.budgets(), self.limits.breakers())
        unheard = self.ledger.records.unheard(limit=9)
        with suppress(NotFound):
            self.queries.executions(ExecutionFilter(task="no-such-task"))
        page = self.pages.page(ScheduleFilter(), limit=200)
        lists = (page, self.queries.queues(), failures, nodes, limits, unheard)
        as_json(lists, encode=str)
        facts = self.inspection.inspect()
        if not isinstance(facts, LedgerFacts):
            raise Mishandled(f"the doctor was not let in: {facts}")
        if facts.activity is not None:
            findings = [*judge_activity(facts.activity)]
            if long := [each.what for each in findings if len(each.what) > LONGEST_LINE]:
                raise Mishandled(f"a finding of {len(long[0])} letters")

    def _nodes(self) -> NodesView:
        """List the nodes after another one has begun, which is at work."""
        self._report(BESIDE)
        found = self.queries.nodes()
        if not any(each.name == BESIDE and not each.silent for each in found.nodes):
            raise Mishandled(f"the node beside it is not at work: {found}")
        self.ledger.nodes.remove(BESIDE)
        return found

    def _listed(self, name: str) -> Sequence[Execution]:
        found = self.ledger.records.executions(ExecutionFilter(schedule=name, limit=100))
        return list(reversed(found))

    def _clear(self) -> None:
        """Leave the innocent alone in all tables."""
        self.shell(
            *(
                f'DELETE FROM "{table}"'
                for table in (
                    "ExecutionAttempt",
                    "AttemptOutput",
                    "FailedTask",
                    "SchedulerNode",
                    "RetryBudget",
                    "CircuitBreaker",
                    "TopicTally",
                )
            ),
            'DELETE FROM "ReplayItem"',
            'DELETE FROM "Replay"',
            'DELETE FROM "SchedulerExecution"',
            'DELETE FROM "SchedulePause"',
            'DELETE FROM "ScheduleTally"',
            "DELETE FROM Calendar WHERE name <> 'innocent'",
            "DELETE FROM CalendarWindow WHERE calendar <> 'innocent'",
            "DELETE FROM Scheduler WHERE name IS NULL OR name <> 'innocent'",
            "DELETE FROM SchedulerPlan WHERE scheduler_id NOT IN (SELECT id FROM Scheduler)",
        )


@contextmanager
def desk(place: Place) -> Iterator[Desk]:
    """Open a desk on an empty ledger."""
    path, clock = place.folder / "ledger.db", FrozenClock(NOON)
    engine = open_engine(f"sqlite:///{path}")
    upgrade(engine, NOON)
    built = Desk(path, sql_ledger(clock, engine), SqlInspection(lambda: engine, clock))
    log = logging.getLogger("cronhare")
    log.addHandler(built.lines)
    try:
        yield built
    finally:
        log.removeHandler(built.lines)
        engine.dispose()


def _spoiling(table: str, column: str, value: str) -> Callable[[Desk], Answer]:
    return lambda site: site.spoil(table, column, value)


def _spoiling_held(column: str, value: str, gate: str) -> Callable[[Desk], Answer]:
    return lambda site: site.spoil("SchedulerExecution", column, value, holding=gate)


def _entries() -> Iterator[Entry[Desk]]:
    cells = ((table, column.name) for table in TABLES for column in metadata.tables[table].c)
    for number, ((table, column), (named, value)) in enumerate(product(cells, VALUES.items())):
        attempt = _spoiling(table, column, value)
        yield Entry(f"{table}.{column}: {named}", attempt, short=number % SHORT == 0)
    gates = (key_gate("spoilt"), "schedule {id}", "key:spoilt")
    columns = ("scheduler_id", "due_at", "executed_at", "expires_at", "concurrency_key", "held_by")
    held = product(gates, columns, VALUES.items())
    for number, (gate, column, (named, value)) in enumerate(held):
        attempt = _spoiling_held(column, value, gate)
        yield Entry(f"held at {gate}, {column}: {named}", attempt, short=number % SHORT == 0)


BOUNDARY = Boundary(name="rows", at=desk, entries=tuple(_entries()))
