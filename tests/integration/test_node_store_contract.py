"""What every ledger promises to keep of the nodes that work on it."""

from datetime import timedelta
from pathlib import Path

import attrs
from sqlalchemy import text

from cronhare.adapters.memory.clock import FrozenClock
from cronhare.adapters.sql import open_engine, upgrade
from cronhare.domain.nodes import NodeReport
from tests.integration.ledgers import MINUTE, NOON, SECOND, Ledger, sql_ledger

HOUR = timedelta(hours=1)

ANT = NodeReport(
    name="ant-1-0a1b2c3d4e5f6071",
    role="worker",
    host="ant",
    version="0.1.0",
    started_at=NOON,
    seen_at=NOON,
    queues=("cron_scheduler", "reports"),
    concurrency=8,
    running=3,
    clock_offset=timedelta(milliseconds=-1_500),
)
BEE = NodeReport(
    name="bee-2-0a1b2c3d4e5f6071",
    role="scheduler",
    host="bee",
    version="0.1.0",
    started_at=NOON,
    seen_at=NOON,
)


def report(ledger: Ledger, *reports: NodeReport) -> None:
    for each in reports:
        ledger.nodes.report(each, forget_before=each.seen_at - HOUR)


def test_a_report_is_read_as_it_was_written(ledger: Ledger) -> None:
    report(ledger, BEE, ANT)

    assert list(ledger.nodes.nodes()) == [ANT, BEE]


def test_a_report_replaces_the_last_one_of_its_node_alone(ledger: Ledger) -> None:
    later = attrs.evolve(ANT, seen_at=NOON + SECOND, running=None, queues=())

    report(ledger, ANT, BEE, later)

    assert list(ledger.nodes.nodes()) == [later, BEE]


def test_the_same_report_twice_is_one(ledger: Ledger) -> None:
    report(ledger, ANT, ANT)

    assert list(ledger.nodes.nodes()) == [ANT]


def test_a_report_that_is_removed_is_gone_and_no_other(ledger: Ledger) -> None:
    report(ledger, ANT, BEE)

    ledger.nodes.remove(ANT.name)
    ledger.nodes.remove(ANT.name)

    assert list(ledger.nodes.nodes()) == [BEE]


def test_who_was_silent_for_long_is_forgotten_when_another_begins(ledger: Ledger) -> None:
    seen = attrs.evolve(ANT, seen_at=NOON + MINUTE)
    report(ledger, ANT, BEE, seen)
    later = attrs.evolve(seen, seen_at=NOON + HOUR + SECOND)

    report(ledger, later)
    before = list(ledger.nodes.nodes())
    new = attrs.evolve(BEE, name="bee-3-0a1b2c3d4e5f6071", seen_at=NOON + HOUR + SECOND)
    report(ledger, new)

    assert before == [later, BEE]
    assert list(ledger.nodes.nodes()) == [later, new]


def test_a_spoilt_report_is_left_out(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/ledger.db")
    upgrade(engine, NOON)
    ledger = sql_ledger(FrozenClock(NOON), engine)
    report(ledger, ANT, BEE)
    with engine.begin() as connection:
        connection.execute(text("UPDATE SchedulerNode SET seen_at = 'x' WHERE role = 'worker'"))

    assert list(ledger.nodes.nodes()) == [BEE]
    engine.dispose()
