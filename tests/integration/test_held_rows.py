"""A row that another session keeps locked, a person's say: it waits, and its neighbours go on."""

from contextlib import ExitStack

import pytest
from sqlalchemy import URL

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.gauges import overdue
from cronhare.application.doctor.finding import Finding, Seen
from cronhare.application.doctor.nodes import NODES
from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import UNRESOLVED
from cronhare.domain.lifecycle.orders import ReplayOrder
from cronhare.ports.inspection import Activity, DatabaseFacts, LedgerFacts
from tests.integration.ledgers import (
    GRACES,
    MINUTE,
    SECOND,
    Ledger,
    draft,
)
from tests.integration.rules import (
    Holding,
    claim_all,
    holding_in,
    some,
)
from tests.ports import ids_of

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`


#: Only MySQL keeps what lies between two rows.
having_gaps = pytest.mark.parametrize("database", ["mysql"], indirect=True)


@pytest.fixture(params=["mysql", "postgresql"])
def database(request: pytest.FixtureRequest) -> str:
    """Names a database whose rows people can hold."""
    name: str = request.param
    return name


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


@pytest.fixture
def url(database: str, request: pytest.FixtureRequest) -> URL:
    url: URL = request.getfixturevalue(f"migrated_{database}")
    return url


@pytest.fixture
def holding(url: URL) -> Holding:
    return holding_in(url)


def row_of(execution: Execution) -> str:
    return f"SELECT id FROM SchedulerExecution WHERE id = {execution.id} FOR UPDATE"


def gaps_of(schedule_id: int) -> str:
    """Keep executions of one schedule from being inserted, as any UPDATE of its rows does.

    In a session with the server's own isolation, REPEATABLE READ. The gap before the first of them
    is held as well, and there the newest of the schedule before would be.
    """
    rows = "SchedulerExecution FORCE INDEX (ux_execution_key)"
    return f"SELECT id FROM {rows} WHERE scheduler_id = {schedule_id} FOR UPDATE"


def with_a_run_each(ledger: Ledger, count: int = 9) -> list[int]:
    """Write schedules that are due now, each of which has run before."""
    names = [f"report-{number}" for number in range(count)]
    ledger.save(*map(draft, names))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    ledger.claim_due()
    ledger.clock.advance(MINUTE)
    return sorted(ids_of(ledger.schedules, names).values())


def claimed_now(ledger: Ledger) -> list[int]:
    """Claim what is due; gives the ids of the schedules."""
    return [one.scheduler_id for one in claim_all(ledger)]


@having_gaps
def test_a_schedule_that_is_held_is_told_by_its_name_and_schedulers_are_not_missed(
    ledger: Ledger, holding: Holding, url: URL, caplog: pytest.LogCaptureFixture
) -> None:
    ids = with_a_run_each(ledger, 4)
    due = ledger.now

    def findings() -> list[Finding]:
        engine = open_engine(url.render_as_string(hide_password=False))
        with engine.connect() as connection:
            late = overdue(connection, ledger.now)
        engine.dispose()
        claim = ledger.records.last_claim()
        activity = Activity(now=ledger.now, overdue=late, last_claim=claim)
        facts = LedgerFacts(
            database=DatabaseFacts(product="", version=""), schema="", activity=activity
        )
        return [*NODES.judge(Seen(ledger=facts))]

    with caplog.at_level("INFO"), holding(gaps_of(ids[3])):
        claimed_now(ledger)
        ledger.clock.advance(2 * MINUTE)
        claimed_now(ledger)
        [told] = findings()
        explained = ledger.explanations.of_instant("report-3", due)
    with caplog.at_level("INFO"):
        ledger.clock.advance(MINUTE)
        claimed_now(ledger)

    assert told.what.startswith("report-2, report-3 were due, the first at ")
    assert "rows are held by another session, or refused" in told.what
    assert "schedulers claim others, and not this one" in explained.answer
    assert findings() == []
    said = [(record.__dict__["action"], record.getMessage()) for record in caplog.records]
    assert [text for action, text in said if action == "schedule.held" and "report-3" in text]
    assert ("schedule.back", "Schedule report-3 is put off no more: it could be taken") in said


def test_of_edited_schedules_the_one_whose_plan_is_held_is_planned_later(
    ledger: Ledger, holding: Holding
) -> None:
    names = [f"report-{number}" for number in range(5)]
    ledger.save(*map(draft, names))
    ledger.plan_edited()
    ledger.save(*(draft(name, params='{"v":2}') for name in names))
    held = ids_of(ledger.schedules, names)["report-2"]

    with holding(f"SELECT * FROM SchedulerPlan WHERE scheduler_id = {held} FOR UPDATE"):
        beside = ledger.plan_edited()
        ledger.clock.advance(MINUTE)
        claimed = ledger.claim_due().claimed
    after = ledger.plan_edited()

    assert (beside.looked, beside.busy, beside.more) == (4, 1, False)
    assert {one.schedule_name for one in claimed} == set(names) - {"report-2"}
    assert (after.looked, after.busy) == (1, 0)
    assert [one.schedule_name for one in ledger.claim_due().claimed] == ["report-2"]


def test_what_is_overdue_behind_whole_pages_of_held_rows_is_found(
    ledger: Ledger, holding: Holding
) -> None:
    held = some(ledger)[:4]
    ledger.clock.advance(GRACES.claimed)

    def find() -> set[int]:
        return {one.id for one in ledger.claims.overdue(now=ledger.now, graces=GRACES, limit=2)}

    with ExitStack() as sessions:  # one by one, or a small table is held as a whole
        for one in held:
            sessions.enter_context(holding(row_of(one)))
        beside = find() | find() | find()
    ledger.clock.advance(MINUTE)
    after = find() | find()

    assert len(beside) == 1
    assert after == {one.id for one in held}


def test_an_end_that_somebody_holds_is_found_later(ledger: Ledger, holding: Holding) -> None:
    held, free = ledger.failed("held"), ledger.failed("free")
    ends = [one.ticket for one in (held, free)]
    ledger.clock.advance(GRACES.ended)

    with holding(f"SELECT id FROM FailedTask WHERE id = {held.id} FOR UPDATE"):
        found = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)
        ledger.claims.mark_ends_published(ends)
    ledger.clock.advance(max(GRACES.ended, MINUTE))
    later = ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=9)

    assert [one.id for one in found] == [free.id]
    assert [one.id for one in later] == [held.id]


@pytest.mark.parametrize("table", ["FailedTask", "SchedulerExecution"])
@pytest.mark.parametrize("key", [None, "task"])
def test_however_slow_a_replay_is_a_held_failure_keeps_no_other_waiting(
    ledger: Ledger, holding: Holding, table: str, key: str | None
) -> None:
    for number in range(4):
        ledger.failed(f"job-{number}")
    *_, second, first = ledger.records.archive()
    held = [row.id if table == "FailedTask" else row.execution_id for row in (first, second)]
    slow = ReplayOrder(which=UNRESOLVED, rate=1, jitter=0, key=key, at_once=2)
    begun = list[str]()

    with holding(f"SELECT * FROM {table} WHERE id IN {tuple(held)} FOR UPDATE"):
        ledger.replays.order(slow, now=ledger.now)
        for _ in range(5):
            begun += [one.schedule_name for one in ledger.advanced().executions]
            ledger.clock.advance(SECOND)

    assert begun == ["job-2", "job-3"]
