"""What every ledger promises of runs that programs enqueue, in transactions of their own too."""

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from sqlalchemy import URL, Engine, create_engine, text

from cronhare.application.administration.changing.enqueue import CannotEnqueue, Enqueuer
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.enqueue import EnqueueInvalid, KeyTaken, Wanted
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.keys import LONGEST_OWN_KEY
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.topology import LONGEST_LANE_DELAY
from cronhare.ports.claims import Enqueued, OtherDatabase
from tests.integration.ledgers import HOUR, MINUTE, SECOND, Ledger, Shell, at_once

MAIL = "shop:mail.send"
MILLISECOND = timedelta(milliseconds=1)
DRAFT = ScheduleDraft(name=MAIL, task=TaskRef("worker", 1_000_000_007), task_name="mail.send")


@attrs.define
class Bell:
    """Notes what is rung for."""

    head_start: timedelta = 3 * SECOND
    rung: list[int] = attrs.field(factory=list[int])

    def ring(self, executions: Sequence[Execution], *, now: datetime) -> None:  # noqa: ARG002
        self.rung += [each.id for each in executions]

    def ring_once_there(self, ids: Collection[int]) -> None:
        self.rung += ids


@attrs.frozen
class Program:
    """A program beside a ledger."""

    ledger: Ledger
    bell: Bell = attrs.field(factory=Bell)

    @property
    def enqueuer(self) -> Enqueuer:
        return Enqueuer(
            store=self.ledger.enqueueing,
            bell=self.bell,
            node="ant",
            now=self.ledger.clock.now,
            measure=self.ledger.claims.now,
        )

    def all(self, *wanted: Wanted, on: object | None = None) -> Sequence[Enqueued]:
        """Enqueue several."""
        return self.enqueuer.enqueue(wanted, {MAIL: DRAFT}.get, on=on)

    def one(self, key: str = "order-7", *, on: object | None = None, **said: Any) -> int:  # noqa: ANN401
        """Enqueue one, and give its id."""
        [answer] = self.all(mail(key, **said), on=on)
        return answer.id

    def seen(self, id_: int) -> Execution:
        return next(one for one in self.ledger.executions() if one.id == id_)


def mail(key: str = "order-7", **said: Any) -> Wanted:  # noqa: ANN401
    return Wanted(schedule=MAIL, key=key, **said)


@pytest.fixture
def program(ledger: Ledger) -> Program:
    return Program(ledger)


def test_a_run_is_claimed_of_the_schedule_that_its_task_has(program: Program) -> None:
    id_ = program.one(params='{"order": 7}')

    run = program.seen(id_)
    assert (run.schedule_name, run.source, run.task_name) == (MAIL, "shop", "mail.send")
    assert (run.state, run.key, run.params) == (State.CLAIMED, "task-order-7", '{"order": 7}')
    assert (run.task, run.due_at, run.attempt) == (DRAFT.task, program.ledger.now, 1)
    assert program.bell.rung == [id_]
    assert isinstance(program.ledger.start(run), Execution)


@pytest.mark.parametrize(
    ("delay", "sent_after"),
    [
        (0 * SECOND, 3 * SECOND),  # its bell may have been lost
        (HOUR, HOUR + 3 * SECOND),
        (2 * LONGEST_LANE_DELAY, 2 * LONGEST_LANE_DELAY),  # no lane reaches so far
    ],
)
def test_a_scheduler_sends_what_nobody_else_may_have_sent(
    program: Program, delay: timedelta, sent_after: timedelta
) -> None:
    run = program.seen(program.one(delay=delay))

    assert run.due_at == program.ledger.now + delay
    program.ledger.clock.advance(sent_after - MILLISECOND)
    assert program.ledger.overdue() == []
    program.ledger.clock.advance(MILLISECOND)
    assert program.ledger.overdue() == [run.id]


def test_without_a_bell_that_sends_it_the_next_scheduler_does(ledger: Ledger) -> None:
    program = Program(ledger, Bell(head_start=timedelta(0)))
    now, later = program.one("now"), program.one("later", delay=HOUR)
    too_far = program.one("too far for the lanes", delay=2 * LONGEST_LANE_DELAY)

    assert program.ledger.overdue() == [now, later]
    assert program.seen(later).next_attempt_at == ledger.now + HOUR
    program.ledger.clock.advance(2 * LONGEST_LANE_DELAY)
    assert too_far in program.ledger.overdue()


def test_it_expires_so_long_after_it_was_to_begin(program: Program) -> None:
    run = program.seen(program.one(delay=HOUR, expires=MINUTE))
    assert run.expires_at == program.ledger.now + HOUR + MINUTE

    program.ledger.clock.advance(HOUR + 2 * MINUTE)
    [ended] = program.ledger.claims.end_waiting(now=program.ledger.now, limit=10)
    assert (ended.id, ended.state) == (run.id, State.SKIPPED)


def test_one_key_is_one_execution_and_with_other_params_neither_it_nor_those_beside_it(
    program: Program,
) -> None:
    first = program.one("7", params='{"order": 7, "to": "a"}')
    program.ledger.clock.advance(SECOND)

    assert program.one("7", params='{"to":"a","order":7}') == first
    with pytest.raises(KeyTaken, match=rf"'7' of shop:mail.send.* execution {first} with the"):
        program.all(mail("6"), mail("7", params='{"order": 8}'), mail("8"))

    assert [run.id for run in program.ledger.executions()] == [first]
    assert program.bell.rung == [first]


def test_many_are_answered_in_their_order(program: Program) -> None:
    known = program.one("1003")
    program.ledger.clock.advance(SECOND)
    wanted = [mail(str(number)) for number in range(1_200, 0, -1)]

    answers = program.all(*wanted, wanted[0])

    runs = {run.id: run.key for run in program.ledger.executions()}
    assert [runs[answer.id] for answer in answers[:-1]] == [f"task-{each.key}" for each in wanted]
    assert answers[-1] == answers[0]
    assert {each.id for each in answers if not each.new} == {known}
    assert len(set(program.bell.rung)) == len(program.bell.rung) == len(runs)


def test_programs_at_once_make_one_schedule_and_one_run_of_each_key(program: Program) -> None:
    ids = at_once(8, lambda number: program.one(str(number // 4)))

    assert len(set(ids)) == len(program.ledger.executions()) == 2
    assert len({program.seen(id_).scheduler_id for id_ in ids}) == 1


def test_a_task_that_nobody_knows_cannot_be_enqueued(program: Program) -> None:
    wanted = [Wanted(schedule="shop:unknown", key="a")]

    with pytest.raises(NotFound, match="no task shop:unknown"):
        program.enqueuer.find(wanted, lambda _: None)


def test_a_broken_schedule_cannot_be_run(program: Program) -> None:
    program.ledger.schedules.save(
        [attrs.evolve(DRAFT, timezone="Mars/Base")], source="shop", now=program.ledger.now
    )

    with pytest.raises(CannotEnqueue, match="Mars/Base"):
        program.one()


def test_what_would_have_expired_is_refused(program: Program) -> None:
    with pytest.raises(EnqueueInvalid, match="is over when it begins"):
        program.one(expires=program.ledger.now - SECOND)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(EnqueueInvalid) as refusal:
        mail(" " * LONGEST_OWN_KEY, delay=-SECOND, at=datetime(2026, 1, 1), queue="")  # noqa: DTZ001

    said = [fault.field for fault in refusal.value.faults]
    assert said == ["key", "delay", "at", "at", "queue"]


# In a transaction of the program's own


@attrs.frozen
class Shop:
    """A program with its own table in the ledger's database, and its own engine."""

    program: Program
    engine: Engine

    @property
    def usual(self) -> Engine:
        """Its engine, with the isolation that servers come with."""
        usual = {"mysql": "REPEATABLE READ", "postgresql": "READ COMMITTED"}
        level = usual.get(self.engine.dialect.name, "SERIALIZABLE")
        return self.engine.execution_options(isolation_level=level)

    def orders(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.scalar(text("SELECT COUNT(*) FROM shop_orders")) or 0)


def _url(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> URL | str:
    if database == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    url: URL = request.getfixturevalue(f"migrated_{database}")
    return url


@pytest.fixture
def shop(
    request: pytest.FixtureRequest, database: str, database_ledger: Ledger, tmp_path: Path
) -> Iterator[Shop]:
    engine = create_engine(_url(request, database, tmp_path))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE shop_orders (id INTEGER)"))
    yield Shop(Program(database_ledger), engine)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE shop_orders"))
    engine.dispose()


ORDER = text("INSERT INTO shop_orders VALUES (7)")


def test_a_run_commits_with_the_callers_rows(shop: Shop) -> None:
    with shop.engine.begin() as connection:
        connection.execute(ORDER)
        id_ = shop.program.one(params='{"order": 7}', on=connection)
        assert shop.program.bell.rung == []

    assert shop.program.seen(id_).state is State.CLAIMED
    assert (shop.orders(), shop.program.bell.rung) == (1, [id_])


def test_a_run_is_gone_with_the_callers_rollback(shop: Shop) -> None:
    with shop.engine.connect() as connection:
        connection.execute(ORDER)
        id_ = shop.program.one(on=connection)
        connection.rollback()

    assert shop.program.ledger.records.execution(id_) is None
    assert (shop.orders(), shop.program.bell.rung) == (0, [])
    assert shop.program.seen(shop.program.one()).state is State.CLAIMED


def test_a_taken_key_does_not_break_the_callers_transaction(shop: Shop) -> None:
    first = shop.program.one(params='{"order": 7}')

    with shop.engine.begin() as connection:
        assert shop.program.one(params='{"order": 7}', on=connection) == first
        with pytest.raises(KeyTaken):
            shop.program.one(params='{"order": 8}', on=connection)
        connection.execute(ORDER)

    assert shop.orders() == 1
    assert [run.id for run in shop.program.ledger.executions()] == [first]


def test_a_drivers_own_connection_is_as_good(shop: Shop) -> None:
    """Nobody tells of its commit: a scheduler finds the run."""
    raw = shop.engine.raw_connection()
    with closing(raw):
        cursor = raw.cursor()
        cursor.execute("INSERT INTO shop_orders VALUES (7)")
        id_ = shop.program.one(delay=HOUR, on=raw.driver_connection)
        again = shop.program.one(delay=HOUR, on=raw.driver_connection)
        raw.commit()

    assert again == id_
    assert shop.program.seen(id_).next_attempt_at == shop.program.ledger.now + HOUR
    assert (shop.orders(), shop.program.bell.rung) == (1, [])


def test_a_key_that_another_transaction_has_given_back_is_taken(
    sqlite: Ledger, sqlite_shell: Shell
) -> None:
    """MySQL may pass over a row for one that is rolled back in that moment."""
    sqlite_shell("CREATE TABLE passed_over (key TEXT)")
    sqlite_shell(
        "CREATE TRIGGER passes BEFORE INSERT ON SchedulerExecution "
        "WHEN NEW.execution_key = 'task-7' AND (SELECT COUNT(*) FROM passed_over) = 0 "
        "BEGIN INSERT INTO passed_over VALUES ('task-7'); SELECT RAISE(IGNORE); END"
    )
    program = Program(sqlite)

    answers = program.all(mail("6"), mail("7"), mail("8"))

    assert [program.seen(each.id).key for each in answers] == ["task-6", "task-7", "task-8"]
    assert all(each.new for each in answers)


def test_programs_that_enqueue_the_same_keys_wait_for_each_other(shop: Shop) -> None:
    shop.program.one("first")  # the schedule is there
    programs = 3

    def enqueue(minute: int, _: int) -> list[int]:
        with shop.usual.begin() as connection:
            wanted = [mail(f"{minute}-{order:02}") for order in range(20)]
            return [each.id for each in shop.program.all(*wanted, on=connection)]

    for minute in range(10):
        first, *others = at_once(programs, partial(enqueue, minute))
        assert others == [first] * (programs - 1)


def test_a_schedule_that_was_made_since_the_callers_first_look_is_found(shop: Shop) -> None:
    store, now = shop.program.ledger.enqueueing, shop.program.ledger.now
    with shop.usual.begin() as connection:
        connection.execute(text("SELECT name FROM Scheduler")).all()
        made = store.make(DRAFT, source="shop", now=now, on=None)

        found = store.make(DRAFT, source="shop", now=now, on=connection)
        store.put(attrs.evolve(DRAFT, description="of this code"), now=now, on=connection)

    [stored] = shop.program.ledger.schedules.schedules([MAIL])
    assert found.id == made.id == stored.id
    assert stored.draft is not None
    assert stored.draft.description == "of this code"


def test_another_time_zone_of_the_callers_session_changes_nothing(
    shop: Shop, database: str
) -> None:
    away = {
        "mysql": "SET time_zone = '+05:30'",
        "postgresql": "SET TIME ZONE 'Asia/Kolkata'",
        "sqlite": "PRAGMA user_version",
    }
    with shop.engine.begin() as connection:
        connection.execute(text(away[database]))
        id_ = shop.program.one(delay=HOUR, on=connection)

    run, now = shop.program.seen(id_), shop.program.ledger.now
    assert (run.executed_at, run.due_at) == (now, now + HOUR)


def test_another_database_is_refused_by_name(
    request: pytest.FixtureRequest, database: str, database_ledger: Ledger, tmp_path: Path
) -> None:
    name, url = "elsewhere", f"sqlite:///{tmp_path}/elsewhere.db"
    if database != "sqlite":  # of the same server
        url = request.getfixturevalue(f"empty_{database}")
        name = url.database
    elsewhere = create_engine(url)
    with elsewhere.connect() as connection, pytest.raises(OtherDatabase, match=name):
        Program(database_ledger).one(on=connection)
    elsewhere.dispose()


@pytest.mark.parametrize("on", [object(), create_engine("sqlite://"), "an alias"])
def test_what_is_no_connection_is_refused(
    memory: Ledger, on: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "django.db", None)  # as where there is no Django

    with pytest.raises(OtherDatabase, match="on= takes"):
        Program(memory).one(on=on)
