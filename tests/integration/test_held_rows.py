"""A row that another session keeps locked, a person's say: it waits, and its neighbours go on."""

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from sqlalchemy import URL

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.dialects import sessions as server_sessions
from cronhare.adapters.sql.dialects.mysql import sessions as mysql_sessions
from cronhare.adapters.sql.gauges import overdue
from cronhare.application.administration.explain import explain
from cronhare.application.scheduling.locked_leases import LockedLeases
from cronhare.domain.diagnosis.finding import Finding
from cronhare.domain.diagnosis.ledger import Activity, judge_activity
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.failure_filter import UNRESOLVED
from cronhare.domain.lifecycle.replay_order import ReplayOrder
from cronhare.domain.messages.messages import TaskMessage
from cronhare.domain.retries.retry import Complete, Verdict
from cronhare.domain.schedules.planning import Plan
from cronhare.ports.attempts import Busy, Finish, Refused, Renewal, StartRequest
from cronhare.ports.claims import Batch
from cronhare.ports.runner import AttemptResult, Captured, Written
from tests.integration.ledgers import (
    FAILURE,
    FOR_GOOD,
    GRACES,
    IN_30_S,
    LEASE,
    LOSS,
    MINUTE,
    SECOND,
    SUCCESS,
    Ledger,
    Shell,
    draft,
    sql_ledger,
)
from tests.integration.rules import (
    Holding,
    all_started,
    claim_all,
    holding_in,
    some,
    start_all,
)
from tests.ports import NO_NACKS, ids_of
from tests.services.mariadb import until_one_waits

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`


#: Only MySQL keeps what lies between two rows.
having_gaps = pytest.mark.parametrize("server", ["mysql"], indirect=True)


@pytest.fixture(params=["mysql", "postgresql"])
def server(request: pytest.FixtureRequest) -> str:
    """Names a database whose rows people can hold."""
    name: str = request.param
    return name


@pytest.fixture
def ledger(server: str, request: pytest.FixtureRequest) -> Ledger:
    ledger: Ledger = request.getfixturevalue(server)
    ledger.plan_edited()
    return ledger


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> URL:
    url: URL = request.getfixturevalue(f"migrated_{server}")
    return url


@pytest.fixture
def holding(url: URL) -> Holding:
    return holding_in(url)


@pytest.fixture
def shell(server: str, request: pytest.FixtureRequest) -> Shell:
    shell: Shell = request.getfixturevalue(f"{server}_shell")
    return shell


def row_of(execution: Execution) -> str:
    return f"SELECT id FROM SchedulerExecution WHERE id = {execution.id} FOR UPDATE"


def finishes(found: list[Execution]) -> list[Finish]:
    """End each in another way: they are written by different statements."""
    ends: list[tuple[AttemptResult, Verdict]]
    ends = [(SUCCESS, Complete()), (FAILURE, IN_30_S), (FAILURE, FOR_GOOD)]
    return [
        Finish(execution=one, ran=ran, verdict=verdict)
        for one, (ran, verdict) in zip(found, (ends * len(found)), strict=False)
    ]


def renewal(held: Collection[int], *, busy: Collection[int] = ()) -> Renewal:
    return Renewal(held=frozenset(held), cancel_requested=frozenset(), busy=frozenset(busy))


@pytest.fixture(params=[0, 2, 4], ids=["first", "in the middle", "last"])
def place(request: pytest.FixtureRequest) -> int:
    """Where among its neighbours the row stands that is held."""
    place: int = request.param
    return place


def test_a_start_of_what_is_nowhere_is_unknown_beside_one_whose_row_is_held(
    ledger: Ledger, holding: Holding
) -> None:
    [held] = some(ledger, 1)
    requests = [
        StartRequest(execution_id=id_, attempt=1, nacks=NO_NACKS) for id_ in (held.id, 4_711_000)
    ]

    with holding(row_of(held)):
        busy, unknown = ledger.attempts.start(requests, now=ledger.now, node="ant", lease=LEASE)

    assert busy == Busy()
    assert isinstance(unknown, Refused)
    assert unknown.unknown


def test_of_ends_the_one_whose_attempt_is_held_waits(
    ledger: Ledger, holding: Holding, place: int
) -> None:
    found = all_started(ledger, some(ledger))
    ends = finishes(found)
    attempt = f"SELECT * FROM ExecutionAttempt WHERE execution_id = {found[place].id} FOR UPDATE"

    with holding(attempt):
        answers = ledger.attempts.finish(ends, now=ledger.now, node="ant")
        again = ledger.attempts.finish([ends[place]], now=ledger.now, node="ant")
    after = ledger.attempts.finish([ends[place]], now=ledger.now, node="ant")

    assert [n for n, one in enumerate(answers) if one == Busy()] == [place]
    assert again == [Busy()]
    assert isinstance(after[0], State)


@having_gaps
def test_of_starts_those_whose_attempts_cannot_be_inserted_for_a_gap_wait(
    ledger: Ledger, holding: Holding
) -> None:
    found = some(ledger)
    start_all(ledger, [found[3]])
    rest = [*found[:3], found[4]]

    with holding(f"SELECT * FROM ExecutionAttempt WHERE execution_id > {found[3].id} FOR UPDATE"):
        answers = start_all(ledger, rest)
    after = start_all(ledger, [found[4]])

    assert [type(one) for one in answers] == [Execution] * 3 + [Busy]
    assert [type(one) for one in after] == [Execution]


def test_a_lease_that_is_another_nodes_is_lost_whoever_holds_its_row(
    ledger: Ledger, holding: Holding
) -> None:
    ours, theirs = all_started(ledger, some(ledger, 1)), all_started(ledger, some(ledger, 1))
    ids = [one.id for one in ours + theirs]

    with holding(row_of(theirs[0])):
        answer = ledger.attempts.renew(ids, now=ledger.now, node="bee", lease=LEASE)

    assert answer == renewal(())


def test_an_end_that_waited_for_its_row_for_longer_than_a_lease_is_heard(
    ledger: Ledger, holding: Holding
) -> None:
    found = all_started(ledger, some(ledger))
    locked = LockedLeases(ledger.attempts, LEASE)
    ledger.clock.advance(LEASE)
    with holding(row_of(found[1])):
        losses = [Finish(execution=found[1], ran=LOSS, verdict=IN_30_S)]
        locked.note(found[1:2], ledger.attempts.give_up(losses, now=ledger.now))

    left = locked.renew_unlocked(ledger.claims.lapsed(now=ledger.now, limit=9), ledger.now)

    assert {each.id for each in left} == {each.id for each in found} - {found[1].id}
    assert found[1].id not in {each.id for each in ledger.claims.lapsed(now=ledger.now, limit=9)}
    end = Finish(execution=found[1], ran=SUCCESS, verdict=Complete())
    assert ledger.attempts.finish([end], now=ledger.now, node="ant") == [State.SUCCEEDED]


def test_of_what_attempts_have_written_that_of_the_one_whose_row_is_held_is_kept_later(
    ledger: Ledger, holding: Holding
) -> None:
    held, other = all_started(ledger, some(ledger, 2))
    said = Captured(head="half\n", bytes=5)
    written = [
        Written(execution_id=one.id, attempt=1, stdout=said, stderr=Captured())
        for one in (held, other)
    ]

    with holding(row_of(held)):
        ledger.attempts.keep_written(written, now=ledger.now, node="ant")

    assert [bool(ledger.records.output(one.id)) for one in (held, other)] == [False, True]


def gaps_of(schedule_id: int) -> str:
    """Keep executions of one schedule from being inserted, as any UPDATE of its rows does.

    In a session with the server's own isolation, REPEATABLE READ. The gap before the first of them
    is held as well, and there the newest of the schedule before would be.
    """
    rows = "SchedulerExecution FORCE INDEX (ux_execution_key)"
    return f"SELECT id FROM {rows} WHERE scheduler_id = {schedule_id} FOR UPDATE"


def adopt(ledger: Ledger, scheduler_id: int, key: str) -> Execution | Refused | Busy:
    message = TaskMessage(type="report", id=25, scheduler_id=scheduler_id, params_scheduler="{}")
    return ledger.attempts.adopt(
        message, key=key, queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
    )


@having_gaps
def test_of_foreign_messages_those_whose_executions_cannot_be_inserted_for_a_gap_wait(
    ledger: Ledger, holding: Holding
) -> None:
    ids = with_a_run_each(ledger, 5)

    with holding(gaps_of(ids[3])):
        beside = [type(adopt(ledger, id_, "foreign-1")) for id_ in ids]
    after = [adopt(ledger, id_, "foreign-1") for id_ in ids]

    assert beside == [Execution, Execution, Busy, Busy, Execution]
    assert [type(one) for one in after] == [Execution] * 5


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
@pytest.mark.parametrize("place", [0, 4, 8], ids=["first", "in the middle", "last"])
def test_of_due_schedules_those_whose_executions_cannot_be_inserted_for_a_gap_wait(
    ledger: Ledger, holding: Holding, place: int
) -> None:
    ids = with_a_run_each(ledger)

    with holding(gaps_of(ids[place])):
        beside = claimed_now(ledger)
        ledger.clock.advance(SECOND)
        again = claimed_now(ledger)
    ledger.clock.advance(MINUTE)

    assert beside == [id_ for id_ in ids if id_ not in {ids[place] - 1, ids[place]}]
    assert again == []
    assert claimed_now(ledger) == ids


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
        return [*judge_activity(activity)]

    with caplog.at_level("INFO"), holding(gaps_of(ids[3])):
        claimed_now(ledger)
        ledger.clock.advance(2 * MINUTE)
        claimed_now(ledger)
        [told] = findings()
        [stored] = ledger.schedules.schedules(["report-3"])
        explained = explain(stored, due, records=ledger.records, now=ledger.now)
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


@pytest.fixture
def patient(ledger: Ledger, url: URL, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """Another replica, which waits for minutes for what others hold."""
    with monkeypatch.context() as opening:
        by_us = mysql_sessions._SESSION
        opening.setattr(mysql_sessions, "_SESSION", (*by_us, "SET innodb_lock_wait_timeout = 300"))
        opening.setattr(server_sessions, "ANSWER_SECONDS", 300)
        engine = open_engine(url.render_as_string(hide_password=False))
        other = sql_ledger(ledger.clock, engine)
        other.claims.now()  # so it has its session
        yield other
    engine.dispose()


@having_gaps
def test_a_replica_that_waits_to_insert_keeps_no_other_from_inserting(
    ledger: Ledger, holding: Holding, patient: Ledger, url: URL
) -> None:
    """Nor from numbers for what it inserts, in the mode that is MariaDB's own."""
    [held, *others] = with_a_run_each(ledger)

    with ThreadPoolExecutor(1) as thread:
        with holding(gaps_of(held)):
            claiming = thread.submit(patient.claim_due, limit=1)
            until_one_waits(url)
            beside = claimed_now(ledger)
            assert not claiming.done()
        late = claiming.result()

    assert beside == others
    assert [one.scheduler_id for one in late.claimed] == [held]


@having_gaps
def test_of_edited_schedules_those_whose_executions_cannot_be_inserted_are_planned_later(
    ledger: Ledger, holding: Holding
) -> None:
    ids = with_a_run_each(ledger)
    ledger.save(*(draft(f"report-{number}", schedule="*/1 * * * *") for number in range(9)))

    def planned() -> tuple[int, int]:
        looked, more = 0, True
        while more:
            batch = ledger.plan_edited()
            looked, more = looked + batch.looked, batch.more
        return looked, batch.busy

    with holding(gaps_of(ids[4])):
        beside = planned()
    ledger.clock.advance(MINUTE)

    assert beside == (7, 2)
    assert planned() == (2, 0)


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


def test_a_new_schedule_that_a_frozen_replica_plans_keeps_no_other_waiting(
    ledger: Ledger, holding: Holding
) -> None:
    ledger.save(draft("ant"), draft("bee"))
    held = ids_of(ledger.schedules, ["ant"])["ant"]

    with holding(
        "INSERT INTO SchedulerPlan (scheduler_id, planned_at) "
        f"SELECT id, updated_at FROM Scheduler WHERE id = {held}"
    ):
        beside = ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    after = ledger.plan_edited()

    assert [(one.looked, one.busy) for one in (beside, after)] == [(1, 1), (1, 0)]


def test_schedules_behind_whole_pages_of_held_plans_are_planned(
    ledger: Ledger, holding: Holding, server: str
) -> None:
    names = [f"report-{number}" for number in range(5)]
    ledger.save(*map(draft, names))
    ledger.plan_edited()
    for name in names:
        ledger.save(draft(name, params='{"v":2}'))
    held = tuple(ids_of(ledger.schedules, names[:4]).values())

    def page() -> Batch:
        return ledger.claims.plan_edited(
            now=ledger.now, since=None, limit=2, node="ant", planner=ledger.planner
        )

    by_key = "SchedulerPlan"
    if server == "mysql":  # or a small table is held as a whole
        by_key += " FORCE INDEX (PRIMARY)"
    with holding(f"SELECT * FROM {by_key} WHERE scheduler_id IN {held} FOR UPDATE"):
        looks = [page(), page(), page()]

    assert [(one.looked, one.busy, one.more) for one in looks] == [
        (0, 2, True),
        (0, 4, True),
        (1, 4, False),
    ]


def test_of_schedules_that_could_not_be_planned_the_held_one_is_planned_later(
    ledger: Ledger, holding: Holding
) -> None:
    names = ["ant", "bee", "cat"]
    ledger.save(*map(draft, names))
    ledger.claims.plan_edited(
        now=ledger.now, since=None, limit=9, node="old", planner=lambda _: Plan(problem="too old")
    )
    held = ids_of(ledger.schedules, ["bee"])["bee"]

    def plan() -> int:
        batch, _ = ledger.claims.plan_problems(
            now=ledger.now, since=None, after=0, limit=9, node="new", planner=ledger.planner
        )
        return batch.looked

    with holding(f"SELECT * FROM SchedulerPlan WHERE scheduler_id = {held} FOR UPDATE"):
        beside = plan()
    ledger.clock.advance(MINUTE)

    assert (beside, plan(), plan()) == (2, 1, 0)


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


def test_ends_behind_whole_pages_of_held_rows_are_found(ledger: Ledger, holding: Holding) -> None:
    *held, free = (ledger.failed(f"end-{number}") for number in range(5))
    ledger.clock.advance(GRACES.ended)

    with ExitStack() as sessions:
        for one in held:
            row = f"SELECT id FROM FailedTask WHERE id = {one.id} FOR UPDATE"
            sessions.enter_context(holding(row))
        looks = [
            ledger.claims.overdue_ends(now=ledger.now, graces=GRACES, limit=2) for _ in range(3)
        ]

    assert [one.id for found in looks for one in found] == [free.id]


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
    begun = list[list[str]]()

    with holding(f"SELECT * FROM {table} WHERE id IN {tuple(held)} FOR UPDATE"):
        ledger.replays.order(slow, now=ledger.now)
        for _ in range(3):
            begun.append([one.schedule_name for one in ledger.advanced().executions])
            ledger.clock.advance(SECOND)

    assert begun == [["job-2"], ["job-3"], []]
