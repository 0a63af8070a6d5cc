"""What people look at, and whether it explains what is stuck."""

from datetime import timedelta
from typing import Any

import pytest

from cronhare.adapters.memory.broker import MemoryInspection
from cronhare.adapters.sql.nodes import SqlNodeStore
from cronhare.adapters.system.clock import HostClock
from cronhare.application.administration.explain import Explanations
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.application.administration.reading.queries import Queries
from cronhare.application.administration.views.executions import ExecutionView
from cronhare.application.administration.views.values import DEEPEST, json_value
from cronhare.application.heartbeat import Heartbeat
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import UNRESOLVED, FailureFilter
from cronhare.domain.nodes import REPORT_EVERY, SILENT_AFTER, NodeReport
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.conditions import Conditions
from cronhare.domain.schedules.schedule import Concurrency, OverlapPolicy
from cronhare.domain.schedules.skips import Pause
from cronhare.domain.topology import MAIN_QUEUE, Topology
from cronhare.ports import LedgerUnavailable
from cronhare.ports.attempts import NodeStorePort, StartRequest
from cronhare.ports.inspection import (
    BrokerInspectionPort,
    Cause,
    Unreachable,
)
from tests.actors import ADA
from tests.ports import NO_NACKS
from tests.unit.application.deliveries import due, run
from tests.unit.application.endings import always, failure
from tests.unit.application.house import LEASE, NOON, House
from tests.unit.executions import execution

MINUTE = timedelta(minutes=1)


def queries(house: House, broker: BrokerInspectionPort | None = None) -> Queries:
    if broker is not None:
        house.container.broker_inspection.override(broker)
    found: Queries = house.container.queries()
    return found


def explanations(house: House) -> Explanations:
    found: Explanations = house.container.explanations()
    return found


def report_worker(house: House, queue: str, *, cut_off: timedelta) -> None:
    """Report a worker that has been *cut_off* from its broker for so long."""
    report = NodeReport(
        name="bee",
        role="worker",
        host="hive",
        version="1",
        started_at=NOON,
        seen_at=house.now,
        queues=(queue,),
        consumed_at=house.now - cut_off,
    )
    SqlNodeStore(house.engine, house.clock).report(report, kept_for=timedelta(hours=1))


def only(house: House) -> ExecutionView:
    return queries(house).execution(house.only.id).execution


# Schedules


def test_a_run_that_waits_for_another_of_its_schedule_names_it() -> None:
    house = House()
    house.add(overlap=OverlapPolicy.QUEUE_ONE)
    for _ in range(3):
        house.dispatcher.tick(house.now)
        house.clock.advance(MINUTE)
    [first] = house.executions(State.PUBLISHED)
    [second] = house.executions(State.HELD)

    told = explanations(house).of_execution(second.id)

    assert told.answer == "It is held back"
    named = f"Execution {first.id} of the same schedule has not ended: it is published."
    assert told.because[-1] == named


@pytest.mark.parametrize(
    ("cut_off", "rest"),
    [
        (None, ", and no worker reports that it serves its queue, cron_scheduler."),
        (3 * MINUTE, ", and no worker reports that it serves its queue, cron_scheduler."),
        (0 * MINUTE, "."),
    ],
)
def test_a_run_that_waits_for_a_place_names_who_has_it_and_whether_its_queue_is_served(
    cut_off: timedelta | None, rest: str
) -> None:
    house = House()
    for name in ("first", "second"):
        house.add(name, concurrency=Concurrency(key="customer-42", limit=1))
    house.clock.advance(MINUTE)
    house.dispatcher.tick(house.now)
    [first] = house.executions(State.PUBLISHED)
    [second] = house.executions(State.HELD)

    if cut_off is not None:
        report_worker(house, MAIN_QUEUE, cut_off=cut_off)

    told = explanations(house).of_execution(second.id)

    has = f"Execution {first.id} with key customer-42 is published"
    assert told.because[-1] == has + rest


@pytest.mark.parametrize(
    ("cut_off", "told"),
    [
        (None, "No worker of its own is there, and no other runs it: `cronhare up` with its task "),
        (3 * MINUTE, "The worker of its own, bee, is disconnected."),
        (0 * MINUTE, "The worker of its own is bee."),
    ],
)
def test_a_run_of_what_stays_alive_says_how_its_own_worker_stands(
    cut_off: timedelta | None, told: str
) -> None:
    house = House()
    house.add(schedule=None, stay_alive=True)
    house.administrator.run_now("report", params=None, actor=ADA)
    if cut_off is not None:
        report_worker(house, house.only.queue, cut_off=cut_off)

    because = explanations(house).of_execution(house.only.id).because

    assert because[-1].startswith(told)


# Why an execution is where it is


@pytest.mark.parametrize(
    ("run", "waits_for"),
    [
        (execution(), f"a scheduler that hands it to the broker, for queue {MAIN_QUEUE}"),
        (execution(State.PUBLISHED), f"a free place of a worker that serves queue {MAIN_QUEUE}"),
        (
            execution(State.RETRYING, next_attempt_at=NOON + MINUTE),
            "its time, 2026-03-02 12:01:00Z",
        ),
        (
            execution(State.RUNNING, owner="ant", lease_until=NOON + LEASE),
            "its task to end, which runs at ant",
        ),
        (
            execution(State.RUNNING, owner="ant", lease_until=NOON + LEASE, cancel_requested=True),
            "ant to stop its task: its end was asked for",
        ),
        (
            execution(State.RUNNING, owner="ant", lease_until=NOON),
            (
                "a scheduler that gives attempt 1 up for lost: ant, "
                "not renewed since 2026-03-02 12:00:00Z"
            ),
        ),
        (
            execution(State.PUBLISHED, cancel_requested=True),
            "a scheduler to cancel it, as its row asks for; no worker begins it",
        ),
        (
            execution(problem="state: 'garbage'"),
            "a scheduler that quarantines it, as its row is broken",
        ),
        (execution(State.SUCCEEDED), None),
    ],
)
def test_what_has_not_ended_says_what_it_waits_for(run: Execution, waits_for: str | None) -> None:
    assert ExecutionView.of(run, now=NOON).waits_for == waits_for


async def test_an_event_that_nobody_heard_is_not_said_to_have_run() -> None:
    house = House()
    await run(house, task=ref_of_topic("orders.due"), topic="orders.due")

    told = explanations(house).of_execution(house.only.id)

    assert (told.ran, told.answer) == (
        False,
        "It was completed without being run: nobody listened to orders.due",
    )
    assert told.because[-1].startswith('`no_listener = "fail"` of its schedule')


# Waiting for an end


# The archive


@pytest.mark.parametrize(
    "text", ["{", "NaN", "[" * 5_000, "1e999", "[" * (DEEPEST + 2) + "]" * (DEEPEST + 2)]
)
def test_what_cannot_be_shown_as_json_stays_text(text: str) -> None:
    assert json_value(text) == text


# Nodes


def heartbeat(house: House, nodes: NodeStorePort | None = None) -> Heartbeat:
    return Heartbeat(
        nodes=nodes or SqlNodeStore(house.engine, house.clock),
        clock=HostClock(house.clock),
        name="ant-1",
        role="worker",
        host="ant",
        version="0.1.0",
        queues=(MAIN_QUEUE,),
        concurrency=8,
        running=lambda: 2,
    )


def test_what_a_silent_node_has_left_is_named() -> None:
    house = House()
    due(house)
    heartbeat(house).round()
    request = StartRequest(execution_id=house.only.id, attempt=1, nacks=NO_NACKS)
    house.attempts.start([request], now=house.now, node="ant-1", lease=timedelta(seconds=30))
    before, began_at = queries(house).nodes().left_runs, house.now
    house.clock.advance(SILENT_AFTER + timedelta(seconds=1))

    [left] = queries(house).nodes().left_runs

    assert before == ()
    assert (left.node, left.execution_id, left.schedule_name) == ("ant-1", house.only.id, "report")
    assert left.lease_until == began_at + timedelta(seconds=30)


class NoLedger(SqlNodeStore):
    """A ledger that is away."""

    def report(self, report: NodeReport, *, kept_for: timedelta) -> bool:  # noqa: ARG002
        """See `NodeStorePort.report`."""
        raise LedgerUnavailable("it is away")


def test_a_heartbeat_outlives_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    house = House()

    assert (
        heartbeat(house, NoLedger(house.engine, house.clock)).round()
        == REPORT_EVERY.total_seconds()
    )
    assert not caplog.records, "who works tells of the outage"


# Queues


class Away(MemoryInspection):
    """A broker that cannot be reached."""

    def inspect(self, topology: Topology | None = None) -> Any:  # noqa: ANN401, ARG002
        """See `BrokerInspectionPort.inspect`."""
        return Unreachable(Cause.ABSENT, "nobody answers")


@pytest.mark.parametrize("broker", [MemoryInspection(), Away()])
def test_what_the_broker_does_not_tell_is_unknown(broker: BrokerInspectionPort) -> None:
    house = House()
    house.add(queue="gone")

    [gone] = queries(house, broker).queues()

    assert (gone.waiting, gone.messages, gone.consumers) == (0, None, None)


# Watching, and what is due next


async def test_an_older_failure_is_no_news_when_it_takes_the_place_of_a_resolved_one() -> None:
    house = House(script=always(failure()))
    await run(house, retry=RetryPolicy(attempts=1))
    [first] = house.records.archive()
    house.archive(first)
    pauses = iter(range(3))

    def pause(_seconds: float) -> None:
        match next(pauses):
            case 0:
                house.administrator.discard([2], note="", actor=ADA)
            case _:
                house.archive(first)

    looks = queries(house).watch_failures(UNRESOLVED, limit=1, pause=pause)

    assert [[one.id for one in next(looks)] for _ in range(3)] == [[2], [], [3]]


def test_of_what_is_due_next_that_is_marked_which_will_not_run() -> None:
    house = House()
    skip = Conditions(blackout=("13:00-14:00",), max_runs=2)
    house.add(schedule="0 * * * *", conditions=skip)  # it is 12:00
    house.add("held", schedule="0 * * * *")
    pause = Pause(since=house.now, until=NOON + timedelta(hours=2), reason="it moves")
    house.schedules.pause("held", pause, now=house.now)

    marked = [one.why_not for one in queries(house).upcoming("report", count=4)]
    held = [one.why_not for one in queries(house).upcoming("held", count=2)]

    assert marked == ["blackout: 13:00-14:00", None, None, "max_runs: it had its 2 runs"]
    assert held == [str(pause), None]


async def test_the_failures_of_a_renamed_schedule_are_listed_and_shown_as_its_own() -> None:
    house = House(script=always(failure()))
    await run(house, retry=RetryPolicy(attempts=1))
    house.sql("UPDATE FailedTask SET schedule_name = 'before'")

    [listed] = queries(house).failures(FailureFilter(), limit=9)
    shown = queries(house).failure(listed.id)

    assert shown.schedule is not None
    assert shown.schedule.name == "report"
    assert listed == shown.failure


async def test_of_a_schedule_that_is_gone_it_is_told_what_is_left() -> None:
    house = House(script=always(failure()))
    await run(house, retry=RetryPolicy(attempts=1))
    house.sql("UPDATE FailedTask SET schedule_name = 'gone'")

    with pytest.raises(NotFound, match="One of that name was deleted or renamed: its last failure"):
        explanations(house).of_instant("gone", None)
    with pytest.raises(NotFound, match="there is no schedule"):
        explanations(house).of_instant("\x00" * 999, None)


def test_a_schedule_without_times_says_who_would_begin_it_and_what_its_last_run_came_of() -> None:
    house = House()
    house.add(schedule=None)
    asked = explanations(house)

    never = asked.of_instant("report", None)
    house.administrator.run_now("report", params=None, actor=ADA)
    house.clock.advance(MINUTE)
    house.administrator.run_at_start("report", now=house.now)
    for one in house.executions():
        house.administrator.cancel(one.id, actor=ADA)
    last = asked.of_instant("report", None)

    assert (never.ran, never.answer) == (False, "It has not run yet")
    assert never.because[0] == "It has no times of its own: `cronhare run report` begins it."
    assert last.execution is not None
    assert last.execution.trigger == "start"
    assert last.because[0] == (
        "It began with a start of `cronhare up`, at 2026-03-02 12:01:00Z; it is the last run of "
        "this schedule."
    )
    assert never.because[0] in last.because, "who would begin another"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "No worker and no `cronhare up` reports itself now: none would begin it at a boot."),
        (
            {"status": False},
            "But it is disabled: `cronhare schedules enable report` switches it on.",
        ),
    ],
)
def test_a_schedule_of_a_file_without_times_says_what_keeps_it_from_beginning(
    changes: dict[str, Any], told: str
) -> None:
    house = House()
    house.add(schedule=None, **changes)
    [stored] = house.schedules.schedules(["report"])
    assert stored.draft is not None
    house.schedules.save([stored.draft], source="jobs.toml", now=house.now)

    because = explanations(house).of_instant("report", None).because

    assert told in because
    assert any("If its jobs file or app, jobs.toml, says on_start" in line for line in because)
