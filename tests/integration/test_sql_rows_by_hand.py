"""Rows that people and other programs write into the users' table, in sessions of their own."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import URL

from cronhare.domain.cron import CronExpression, find_zone
from cronhare.domain.execution import State
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.claims import Batch
from tests.integration.ledgers import FOR_GOOD, IN_30_S, LEASE, MINUTE, NOON, Ledger, Shell, draft
from tests.ports import ids_of
from tests.services.mariadb import run

SQLITE = "sqlite"


@pytest.fixture
def ledger(database_ledger: Ledger) -> Ledger:
    return database_ledger


def test_a_schedule_that_is_mended_by_an_update_runs_with_its_new_params(
    ledger: Ledger, shell: Shell
) -> None:
    ledger.clock.move_to(datetime.now(UTC))  # edits by hand have the server's time
    id_ = ledger.add(status=False, params='{"fixed": null}')
    params = '{"fixed": "configuration"}'

    shell(f"UPDATE Scheduler SET status = 1, params = '{params}' WHERE id = {id_}")
    ledger.clock.move_to(datetime.now(UTC))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    [run] = ledger.claim_due().claimed
    assert run.params == params
    assert ledger.succeeded(run).state is State.SUCCEEDED


@pytest.mark.parametrize(("after", "is_paused"), [("1", True), ('"x"', False)])
def test_a_row_by_hand_may_pause_itself_and_one_that_is_broken_does_not(
    ledger: Ledger, shell: Shell, after: str, is_paused: bool
) -> None:
    ledger.clock.move_to(datetime.now(UTC))
    ledger.add()
    ledger.clock.advance(MINUTE)
    [run] = ledger.claim_due().claimed
    running = ledger.started(run)
    conditions = f"""'{{"pause_after": {after}}}'"""
    shell(f"UPDATE Scheduler SET conditions = {conditions} WHERE name = 'report'")

    ledger.finish(running, FOR_GOOD)

    [stored] = ledger.schedules.schedules(["report"])
    assert (stored.pause is not None) is is_paused


def test_the_daily_cleanup_runs_at_the_time_and_in_the_zone_of_its_row(
    ledger: Ledger, shell: Shell
) -> None:
    ledger.clock.move_to(datetime.now(UTC))  # edits by hand have the server's time
    tokyo = "schedule = '30 4 * * *', timezone = 'Asia/Tokyo'"

    shell(f"UPDATE Scheduler SET {tokyo} WHERE name = 'cronhare-cleanup'")
    ledger.clock.move_to(datetime.now(UTC))
    ledger.plan_edited()
    ledger.clock.advance(timedelta(days=1))

    [run] = ledger.claim_due().claimed
    assert (run.task.type, f"{run.due_at:%H:%M}") == ("system", "19:30")


def test_every_one_of_many_quick_updates_is_noticed(ledger: Ledger, shell: Shell) -> None:
    ledger.add()

    seen = set()
    for number in range(300):
        shell(f"UPDATE Scheduler SET user_id = {number} WHERE name = 'report'")
        seen.update(shell("SELECT updated_at FROM Scheduler WHERE name = 'report'"))

    assert len(seen) == 300


def test_a_request_to_cancel_that_is_written_into_a_row_is_honoured_in_any_state(
    ledger: Ledger, shell: Shell
) -> None:
    waiting = [
        ledger.claimed("claimed"),
        ledger.published("published"),
        ledger.finished(ledger.claimed("retrying"), IN_30_S),
    ]
    running, neighbour = ledger.running("running"), ledger.published("neighbour")
    shell(f"UPDATE SchedulerExecution SET cancel_requested = 1 WHERE id <> {neighbour.id}")

    looks = [ledger.claims.end_waiting(now=ledger.now, limit=2) for _ in range(5)]
    renewal = ledger.attempts.renew([running.id], now=ledger.now, node="ant", lease=LEASE)

    assert sorted(one.id for look in looks for one in look) == sorted(one.id for one in waiting)
    assert {ledger.seen(one).state for one in waiting} == {State.CANCELLED}
    assert ledger.seen(waiting[0]).finished_at == ledger.now
    assert renewal.cancel_requested == {running.id}
    assert ledger.seen(neighbour) == neighbour


def test_a_hand_made_row_is_a_schedule(ledger: Ledger, shell: Shell) -> None:
    shell("INSERT INTO Scheduler (schedule, status, report_id) VALUES ('0 8 * * *', 1, 25)")
    [(id_,)] = shell("SELECT max(id) FROM Scheduler")
    name, nobody = f"#{id_}", f"#{id_ + 1}"

    [stored] = ledger.schedules.schedules([name])
    batch = ledger.plan_edited()

    assert stored.draft is not None
    assert (stored.name, stored.draft.task) == (name, TaskRef("report", 25))
    assert stored.created_at == stored.updated_at
    assert batch == Batch(looked=1)
    assert ids_of(ledger.schedules, [name, nobody]) == {name: id_}


def test_a_hashed_time_of_a_row_follows_its_name(ledger: Ledger, shell: Shell) -> None:
    """Rows with one text have times of their own; without a name the row's number is its name."""
    shell("INSERT INTO Scheduler (schedule, status, report_id) VALUES ('H H * * *', 1, 25)")
    [(id_,)] = shell("SELECT max(id) FROM Scheduler")
    ledger.add("nightly", schedule="H H * * *")
    ledger.plan_edited()

    def next_due() -> dict[str, datetime | None]:
        return {row.name: row.next_due_at for row in ledger.schedules.schedules()}

    nameless = CronExpression.parse("H H * * *", f"#{id_}").next(NOON, find_zone("UTC"))
    before = next_due()[f"#{id_}"]
    shell(f"UPDATE Scheduler SET name = 'tidy' WHERE id = {id_}")
    ledger.plan_edited()

    assert nameless is not None
    assert before is not None
    assert (before.hour, before.minute) == (nameless.hour, nameless.minute)
    found = next_due()
    assert found["nightly"] == datetime(2026, 3, 2, 14, 21, tzinfo=UTC)
    assert found["tidy"] not in {before, found["nightly"]}


def test_other_peoples_columns_outlive_our_edits(ledger: Ledger, shell: Shell) -> None:
    ledger.add()
    shell("UPDATE Scheduler SET user_id = 7, group_id = 8")

    ledger.schedules.save([draft(task=TaskRef("worker", 3))], source=None, now=ledger.now)

    assert shell(
        "SELECT user_id, group_id, report_id, worker_id FROM Scheduler WHERE name = 'report'"
    ) == [(7, 8, None, 3)]


BROKEN_ANYWHERE = [
    ("schedule = '61 * * * *'", "schedule"),
    ("timezone = 'Mars/Olympus'", "timezone"),
    ("params = '{'", "params: not JSON"),
    ("report_id = NULL", "one of report_id, worker_id, reminder_id, event_id"),
    ("topic = 'orders.due'", "topic: a row has a topic or names a task, not both"),
    ("report_id = NULL, topic = 'orders *'", "topic: 'orders *': a topic is named with"),
    ("task_type = 'import', task_id = 7", "one of report_id, worker_id, reminder_id, event_id"),
    ("retry = '{\"attempts\": 99}'", "SCHEDULE_RETRY_POLICY_INVALID"),
    ("misfire_window_ms = -1", "misfire_window_ms: -1"),
    ("timeout_ms = 9223372036854775807", "timeout_ms"),
    ("fold_policy = 'First'", "fold_policy: 'First' is not one of"),
    ("every_ms = -1, schedule = NULL", "every_ms: -1 is not a whole number, 1,000-31,622,400,000"),
    ("task_name = 'backup'", "task_name: names a task of no source"),
    ("status = -1", "status: -1 is not 0 (off) or 1 (on)"),
]

#: Its columns take values of any type.
BROKEN_IN_SQLITE = [
    ("schedule = NULL, date_time = 'tomorrow'", "date_time: 'tomorrow' is not a time"),
    ("params = x'00'", "params: "),
    ("report_id = 'many'", "report_id: 'many' is not a task's number"),
    ("updated_at = 'yesterday'", "updated_at: 'yesterday' is not a time"),
]

#: Columns for times that take what is none.
BROKEN_IN_POSTGRESQL = [("starts_at = 'infinity'", "is not a time")]
BROKEN_IN_MYSQL = [
    ("schedule = NULL, date_time = '0000-00-00'", "date_time: '0000-00-00 00:00:00.000000' is not"),
    ("updated_at = '0000-00-00'", "updated_at: '0000-00-00 00:00:00.000000' is not a time"),
]


@pytest.mark.parametrize(
    ("database", "change", "problem"),
    [
        *((SQLITE, *broken) for broken in BROKEN_ANYWHERE + BROKEN_IN_SQLITE),
        # What reads them is the same: on the servers some of each are enough.
        *(
            pytest.param("mysql", *broken, marks=pytest.mark.integration)
            for broken in BROKEN_ANYWHERE[::4] + BROKEN_IN_MYSQL
        ),
        *(
            pytest.param("postgresql", *broken, marks=pytest.mark.integration)
            for broken in BROKEN_ANYWHERE[::4] + BROKEN_IN_POSTGRESQL
        ),
    ],
)
def test_a_broken_row_is_told_once_and_the_others_run(
    ledger: Ledger, shell: Shell, change: str, problem: str
) -> None:
    ledger.add("broken")
    ledger.add("sound")
    shell(f"UPDATE Scheduler SET {change} WHERE name = 'broken'")
    ledger.clock.advance(MINUTE)

    first, second = ledger.claim_due(), ledger.claim_due()

    assert [one.schedule_name for one in first.claimed] == ["sound"]
    [(name, said)] = first.problems
    assert name == "broken"
    assert problem in said
    assert len(said) < 500
    assert (second.claimed, second.problems) == ((), ())
    assert ledger.plan_edited() == Batch()
    [stored] = ledger.schedules.schedules(["broken"])
    assert (stored.draft, stored.problem) == (None, said)


@pytest.mark.parametrize(
    ("columns", "field", "value"),
    [
        ({"worker_id": "3", "source": "'shop'", "task_name": "'backup'"}, "task_name", "backup"),
        ({"task_type": "'data-import'", "task_id": "7"}, "task", TaskRef("data-import", 7)),
        ({"topic": "'orders.due'", "no_listener": "'fail'"}, "topic", "orders.due"),
    ],
)
def test_a_row_by_hand_may_name_any_task_or_a_topic(
    ledger: Ledger, shell: Shell, columns: dict[str, str], field: str, value: object
) -> None:
    names, values = ", ".join(columns), ", ".join(columns.values())
    shell(
        f"INSERT INTO Scheduler (name, schedule, status, {names})"
        f" VALUES ('by-hand', '* * * * *', 1, {values})"
    )
    ledger.plan_edited()
    shell("UPDATE SchedulerPlan SET next_due_at = '2026-03-02 11:59:00.000000'")

    runs = {run.schedule_name: run for run in ledger.claim_due().claimed}

    assert getattr(runs["by-hand"], field) == value


def test_a_broken_window_stops_the_rows_that_name_its_calendar_and_no_others(
    ledger: Ledger, shell: Shell
) -> None:
    ledger.clock.move_to(datetime.now(UTC))
    ledger.save(draft("charge"), draft("innocent"))
    shell("INSERT INTO Calendar (name, timezone) VALUES ('closed', 'UTC')")
    shell("INSERT INTO CalendarWindow (calendar, during) VALUES ('closed', 'some day')")
    shell("""UPDATE Scheduler SET conditions = '{"skip_on": ["closed"]}' WHERE name = 'charge'""")
    ledger.clock.move_to(datetime.now(UTC))  # edits by hand have the server's time
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)

    batch = ledger.claim_due()

    assert {run.schedule_name for run in batch.claimed} == {"innocent"}
    [stored] = ledger.schedules.schedules(["charge"])
    assert "calendar closed: " in str(stored.problem)
    assert "some day" in str(stored.problem)


def test_a_schedule_that_is_deleted_leaves_its_history_and_runs_no_more(
    ledger: Ledger, shell: Shell
) -> None:
    execution = ledger.succeeded(ledger.claimed())
    ledger.add("deleted")
    ledger.clock.advance(MINUTE)

    shell("DELETE FROM Scheduler WHERE system_id IS NULL")
    batch = ledger.claim_due()

    assert (batch.claimed, ledger.claim_due()) == ((), Batch())
    assert ledger.claims.next_due() != ledger.now
    assert ledger.seen(execution).schedule_name == f"#{execution.scheduler_id}"
    assert [one.id for one in ledger.executions()] == [execution.id]


pytestmark = pytest.mark.integration


@pytest.mark.integration
@pytest.mark.parametrize("zone", ["+05:30", "-08:00", "SYSTEM"])
def test_an_edit_has_the_time_of_utc_whatever_the_sessions_zone_is(
    mysql: Ledger, migrated_mysql: URL, zone: str
) -> None:
    mysql.add()

    run(
        migrated_mysql,
        f"SET time_zone = '{zone}'",
        "UPDATE Scheduler SET schedule = '*/2 * * * *' WHERE name = 'report'",
    )

    [stored] = mysql.schedules.schedules()
    assert abs(stored.updated_at - datetime.now(UTC)) < MINUTE
