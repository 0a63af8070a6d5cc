"""Boundary: rows of `Scheduler` that people write by hand: each cell with what SQLite takes.

The site is the application on a frozen clock, with a ledger in a file and a broker in memory. After
each entry all that reads schedules is asked, and an innocent schedule that is due in the same
minute is claimed, published, started and finished.
"""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from itertools import count, product
from pathlib import Path

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.adapters.sql.records.inspection import SqlInspection
from cronhare.adapters.sql.tables.tables import metadata
from cronhare.application.administration.jobs_file.difference import difference
from cronhare.application.administration.reading.schedules import ScheduleViews
from cronhare.application.doctor.finding import Seen
from cronhare.application.doctor.nodes import NODES
from cronhare.application.publish import ExecutionPublisher
from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.application.scheduling.reconcile import Reconciler
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.retry_limits import RetryPolicies
from cronhare.domain.messages import Signer
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.planning import FULL_COMPARISON
from cronhare.domain.topology import MAIN_QUEUE
from cronhare.entrypoints.json_text import as_json
from cronhare.ports.inspection import LedgerFacts
from cronhare.ports.records import ExecutionFilter, Retention
from cronhare.ports.schedules import ScheduleFilter
from tests.frozen_clock import FrozenClock
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
from tests.integration.ledgers import NOON, Ledger, draft, sql_ledger
from tests.trial_broker import TrialBroker
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

#: The short form tries every so many-th cell.
SHORT = 41


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
        self.pages = ScheduleViews(
            schedules=ledger.schedules,
            lists=ledger.lists,
            overview=ledger.overview,
            records=ledger.records,
            names=ledger.asked,
            policy=RetryPolicy(),
            now=ledger.clock.now,
        )
        self.broker = TrialBroker(ledger.clock)
        publisher = ExecutionPublisher(
            broker=self.broker,
            claims=ledger.claims,
            run_system_task=lambda *_: None,
            signer=Signer(),
            in_memory=False,
        )
        self.dispatcher = Dispatcher(
            claims=ledger.claims, publisher=publisher, executor=Inline(), node="ant"
        )
        self.reconciler = Reconciler(
            claims=ledger.claims,
            attempts=ledger.attempts,
            publisher=publisher,
            policies=RetryPolicies(RetryPolicy()),
            lease=timedelta(seconds=30),
            random_fraction=lambda: 0.0,
        )
        self.lines = Lines()
        self._numbers = count(1)
        ledger.add("innocent")
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

    def spoil(self, column: str, value: str) -> Answer:
        """Spoil a cell of a schedule of which one run waits and one is at work."""
        name = f"spoilt-{next(self._numbers)}"
        id_ = self.ledger.add(name)
        for _ in range(2):
            self.ledger.clock.advance(MINUTE)
            self.turn()
        self.ledger.started(self._listed(name)[-1])
        try:
            self.shell(f"UPDATE Scheduler SET {column} = {value} WHERE id = {id_}")
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

    def _look(self, name: str) -> Answer:
        """Let everything that reads schedules read them, now and a day later."""
        told: list[object] = [*self._read(name)]
        for passing in (MINUTE, FULL_COMPARISON, DAY):
            self.ledger.clock.advance(passing)
            self.turn()
            told += self._read(name)
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
            self.ledger.explanations.explain(stored, self.ledger.now)
        difference([draft("innocent"), draft(name)], schedules.schedules(), source="jobs")
        yield from (run.problem for run in records.executions(ExecutionFilter(limit=200)))
        as_json(self.pages.page(ScheduleFilter(), limit=200), encode=str)
        facts = self.inspection.inspect()
        if not isinstance(facts, LedgerFacts):
            raise Mishandled(f"the doctor was not let in: {facts}")
        findings = [*NODES.judge(Seen(ledger=facts))]
        if long := [each.what for each in findings if len(each.what) > LONGEST_LINE]:
            raise Mishandled(f"a finding of {len(long[0])} letters")

    def _listed(self, name: str) -> Sequence[Execution]:
        found = self.ledger.records.executions(ExecutionFilter(schedule=name, limit=100))
        return list(reversed(found))

    def _clear(self) -> None:
        """Leave the innocent alone in all tables."""
        self.shell(
            "DELETE FROM ExecutionAttempt",
            "DELETE FROM FailedTask",
            "DELETE FROM SchedulerExecution",
            "UPDATE SchedulerPlan SET paused_at = NULL, claimed = NULL",
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


def _entries() -> Iterator[Entry[Desk]]:
    columns = [column.name for column in metadata.tables["Scheduler"].c]
    for number, (column, (named, value)) in enumerate(product(columns, VALUES.items())):
        attempt = partial(Desk.spoil, column=column, value=value)
        yield Entry(f"{column}: {named}", attempt, short=number % SHORT == 0)


BOUNDARY = Boundary(name="rows", at=desk, entries=tuple(_entries()))
