"""Two nodes of a Galera cluster that write the same at once: one of them is told at its COMMIT."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

import attrs
import pytest
from sqlalchemy import Engine, ExceptionContext, event, text

from cronhare.adapters.sql.database import Database, repeatable
from cronhare.adapters.sql.dialect import TransactionRolledBack
from cronhare.adapters.sql.dialects import mysql_sessions, open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.retry import Complete
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import MINUTE, SUCCESS, Ledger, at_once, draft, sql_ledger
from tests.services import galera, mariadb
from tests.services.finding import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]

SCHEDULES, ROUNDS = 40, 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[galera.Cluster]:
    with galera.cluster(tmp_path_factory.mktemp("galera")) as cluster:
        mariadb.run(cluster.url, "CREATE DATABASE cron")
        yield cluster


@attrs.define
class Station:
    """What works on one node alone, with the errors that it met: the number, and the statement."""

    node: galera.Node
    engine: Engine
    errors: list[tuple[int, str | None]] = attrs.field(factory=list)

    def note(self, met: ExceptionContext) -> None:
        """Remember an error."""
        self.errors.append((mysql_sessions.number_of(met.original_exception), met.statement))


@pytest.fixture
def stations(cluster: galera.Cluster) -> Iterator[list[Station]]:
    wait_until(lambda: all(node.is_synced() for node in cluster.nodes), seconds=60, what="all")
    stations = []
    for node in cluster.nodes:
        url = node.url.set(database="cron").render_as_string(hide_password=False)
        station = Station(node, open_engine(url))
        event.listen(station.engine, "handle_error", station.note)
        stations.append(station)
    upgrade(stations[0].engine)
    yield stations
    for station in stations:
        station.engine.dispose()


@pytest.fixture
def counter(stations: list[Station]) -> None:
    mariadb.run(
        stations[0].node.url.set(database="cron"),
        "CREATE OR REPLACE TABLE counter (id INT PRIMARY KEY, n INT NOT NULL)",
        "INSERT INTO counter VALUES (1, 0)",
    )


ADD = text("UPDATE counter SET n = n + 1 WHERE id = 1")
READ = text("SELECT n FROM counter WHERE id = 1")


def count(station: Station, clock: FrozenClock) -> int:
    with Database(station.engine, clock).read("reading") as connection:
        return int(connection.scalar(READ) or 0)


@pytest.mark.usefixtures("counter")
def test_what_another_node_wrote_first_is_told_at_the_commit_and_repeated(
    stations: list[Station], clock: FrozenClock
) -> None:
    here, there, _ = stations
    tries = 0

    @repeatable
    def add() -> None:
        nonlocal tries
        tries += 1
        with Database(here.engine, clock).write("adding") as connection:
            connection.execute(ADD)
            if tries == 1:  # while ours is open, the other node commits: it wins
                with Database(there.engine, clock).write("adding") as other:
                    other.execute(ADD)

    add()

    assert (tries, here.errors) == (2, [(mysql_sessions.DEADLOCK, None)])  # of no statement
    assert {count(station, clock) for station in stations} == {2}


def run_all(ledgers: list[Ledger], waiting: list[Execution], number: int) -> None:
    """Run on one node whatever nobody else has begun, one after the other."""
    ledger, node = ledgers[number], f"n{number}"
    for execution in waiting:
        if isinstance(begun := ledger.start(execution, node=node), Execution):
            assert ledger.finish(begun, Complete(), SUCCESS, node=node) is State.SUCCEEDED


def test_schedulers_and_workers_on_different_nodes_do_everything_once(
    stations: list[Station], clock: FrozenClock
) -> None:
    ledgers = [sql_ledger(clock, station.engine) for station in stations]
    first = ledgers[0]
    first.save(*(draft(f"job-{number}") for number in range(SCHEDULES)))
    first.plan_edited()
    for _ in range(ROUNDS):
        clock.advance(MINUTE)
        claimed = at_once(len(ledgers), lambda number: ledgers[number].claim_due(node=f"n{number}"))
        ours = Counter(row.key + row.schedule_name for batch in claimed for row in batch.claimed)
        assert set(ours.values()) == {1}
        assert len(ours) == SCHEDULES
        waiting = [row for batch in claimed for row in batch.claimed]
        at_once(len(ledgers), partial(run_all, ledgers, waiting))

    rows = first.executions()
    assert Counter(row.state for row in rows) == {State.SUCCEEDED: ROUNDS * SCHEDULES}
    assert {len(first.records.attempts(row.id)) for row in rows} == {1}


@pytest.mark.usefixtures("counter")
def test_what_a_node_without_a_majority_refuses_at_the_commit_was_not_done(
    stations: list[Station], clock: FrozenClock
) -> None:
    here, *others = stations

    def add_amid_a_loss() -> None:
        with Database(here.engine, clock).write("adding") as connection:
            connection.execute(ADD)
            for other in others:
                other.node.kill()
            wait_until(lambda: not here.node.is_synced(), seconds=30, what="the loss")

    try:
        with pytest.raises(TransactionRolledBack):
            add_amid_a_loss()
        [(number, statement)] = here.errors
    finally:
        mariadb.run(here.node.url, "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
        for other in others:
            other.node.start()

    assert number in {mysql_sessions.NOT_READY, mysql_sessions.DEADLOCK}
    assert statement is None
    assert {count(station, clock) for station in stations} == {0}
