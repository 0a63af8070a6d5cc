"""A COMMIT that is answered with an error: taken back, or kept after all.

A node of a cluster answers 1213 to what it could not have certified, and also when it loses the
others over it: then they may have it. So what is repeated must do what was asked for, once.
"""

from collections.abc import Iterator
from typing import Any

import attrs
import pymysql
import pytest
from msgspec.structs import asdict
from sqlalchemy import URL, Engine

from cronhare.adapters.sql.dialects import open_engine
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE
from cronhare.ports import LedgerUnavailable
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import (
    FOR_GOOD,
    IN_30_S,
    LEASE,
    MINUTE,
    NOON,
    SECOND,
    Ledger,
    draft,
    empty,
    sql_ledger,
)

pytestmark = pytest.mark.integration


@attrs.define
class Commits:
    """Answers every other COMMIT with an error; *kept* says whether it was carried out before."""

    number: int
    kept: bool
    asked: int = 0

    def __call__(self, session: "pymysql.Connection[Any]") -> None:
        """Commit, or do not."""
        self.asked += 1
        is_refused = self.asked % 2 == 1
        if is_refused and not self.kept:
            session.rollback()
        else:
            session.commit()
        if is_refused:
            raise pymysql.err.OperationalError(self.number, "an error at COMMIT")


@pytest.fixture
def engine(migrated_mysql: URL) -> Iterator[Engine]:
    empty(migrated_mysql)
    engine = open_engine(migrated_mysql.render_as_string(hide_password=False))
    yield engine
    engine.dispose()


def live(ledger: Ledger) -> object:
    """Take executions through all that is written of them, and tell what there is at the end."""
    ledger.add()
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    [execution] = ledger.executions()
    ledger.claims.mark_published([execution], now=ledger.now)

    started = ledger.started(ledger.seen(execution))
    ledger.attempts.renew([started.id], now=ledger.now, node="ant", lease=LEASE)
    assert ledger.finish(started, IN_30_S) is State.RETRYING
    ledger.clock.advance(30 * SECOND)
    assert ledger.finish(ledger.started(ledger.seen(execution)), FOR_GOOD) is State.FAILED

    ledger.records.replay([row.id for row in ledger.records.archive()], now=ledger.now)
    ledger.claims.mark_published([ledger.seen(execution)], now=ledger.now)
    assert ledger.finish(ledger.started(ledger.seen(execution)), FOR_GOOD) is State.FAILED
    ledger.records.discard(
        [row.id for row in ledger.records.archive()], note="enough", now=ledger.now
    )
    by_hand = {
        key: ledger.run_now(execution.scheduler_id, key) for key in ("first", "second", "third")
    }
    ledger.records.cancel(by_hand["first"].id, now=ledger.now)
    ledger.claims.hand_over([by_hand["second"]], now=ledger.now)
    lost = ledger.started(by_hand["third"])
    ledger.clock.advance(2 * LEASE)
    assert ledger.lapsed() == [lost.id]
    ledger.disable("report")
    return told(ledger)


def told(ledger: Ledger) -> object:
    """Tell all but what counts writes: versions, and ids, which nothing is given a second time."""
    executions = [
        (
            {**asdict(row), "id": 0, "scheduler_id": 0, "version": 0},
            [(one.attempt, one.ending) for one in ledger.records.attempts(row.id)],
        )
        for row in ledger.executions()
    ]
    archive = [row.resolution for row in ledger.records.archive(EVERY_FAILURE)]
    [schedule] = ledger.schedules.schedules(["report"])
    return executions, archive, (schedule.draft, schedule.problem, schedule.planned)


@pytest.mark.parametrize(
    ("number", "kept"), [(1213, False), (1213, True), (1047, False), (3101, False)]
)
def test_what_was_asked_for_is_done_once(
    number: int,
    *,
    kept: bool,
    engine: Engine,
    migrated_mysql: URL,
    clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undisturbed = live(sql_ledger(clock, engine))
    empty(migrated_mysql)
    commits = Commits(number, kept)
    monkeypatch.setattr(engine.dialect, "do_commit", commits)

    disturbed = live(sql_ledger(FrozenClock(NOON), engine))

    assert disturbed == undisturbed
    assert commits.asked > 20


@pytest.mark.parametrize("kept", [False, True])
def test_of_an_error_at_commit_that_says_nothing_of_its_outcome_the_caller_is_told(
    *, kept: bool, engine: Engine, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = sql_ledger(clock, engine)
    monkeypatch.setattr(engine.dialect, "do_commit", Commits(1180, kept))

    with pytest.raises(LedgerUnavailable, match=r"saving schedules .*could not commit"):
        ledger.save(draft())

    assert [stored.name for stored in ledger.schedules.schedules()] == ["report"] * kept
