"""What every ledger promises of statistics."""

from datetime import timedelta
from functools import partial

import pytest

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, FailureFilter
from cronhare.domain.retries.outcome import ErrorClass, TaskError
from cronhare.domain.retries.retry import Fail, Quarantine
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.statistics import (
    By,
    ExecutionCount,
    FailureCount,
    ScheduleResult,
    ScheduleResults,
)
from tests.integration.ledgers import FOR_GOOD, IN_30_S, MINUTE, NOON, Ledger, draft

DAY = timedelta(days=1)
WORKER = TaskRef("worker", 7)
NOT_FOUND = TaskError(message="gone", code="ENOENT", error_class=ErrorClass.PERMANENT)


def counts(found: list[FailureCount]) -> list[tuple[object, ...]]:
    return [(*each.group.values(), each.failures) for each in found]


def failures(ledger: Ledger, *by: By, which: FailureFilter = EVERY_FAILURE) -> list[FailureCount]:
    return [*ledger.statistics.failures(which, by=by, limit=100)]


def test_failures_are_counted_per_day_and_type_as_the_original_does(ledger: Ledger) -> None:
    retried = ledger.finished(ledger.claimed("a"), IN_30_S)
    ledger.finished(retried, FOR_GOOD)
    ledger.failed("b")
    last = ledger.failed("c", task=WORKER)
    ledger.clock.advance(DAY)
    ledger.failed("d")

    today, yesterday, of_worker = failures(ledger, By.DAY, By.TYPE)

    assert counts([today, yesterday, of_worker]) == [
        ("2026-03-03", "report", 1),
        ("2026-03-02", "report", 2),
        ("2026-03-02", "worker", 1),
    ]
    assert yesterday.mean_retries == pytest.approx(0.5)
    assert (of_worker.first_at, of_worker.last_at) == (last.failed_at, last.failed_at)
    assert (of_worker.quarantined, of_worker.unresolved) == (0, 1)


def test_the_weekly_report_is_by_reason_with_the_most_frequent_first(ledger: Ledger) -> None:
    ledger.failed("a", verdict=Fail("the server did not answer"))
    ledger.failed("b", verdict=Fail("Der Server schweigt: ß"))
    ledger.failed("c", verdict=Fail("the server did not answer"))
    ledger.failed("d", verdict=Fail("The server did not answer"))
    ledger.failed("e", verdict=Fail("the server did not answer"))
    ledger.failed("f", verdict=Fail("Der Server schweigt: ß"))

    assert counts(failures(ledger, By.REASON)) == [
        ("the server did not answer", 3),
        ("Der Server schweigt: ß", 2),
        ("The server did not answer", 1),
    ]
    [first] = ledger.statistics.failures(EVERY_FAILURE, by=[By.REASON], limit=1)
    assert first.failures == 3


def test_failures_are_counted_by_all_that_they_have(ledger: Ledger) -> None:
    ledger.failed("a", error=NOT_FOUND, queue="cron_scheduler.reports")
    ledger.failed("b", error=NOT_FOUND, verdict=Quarantine("it crashed", crashes=()))
    ledger.failed("c")

    assert counts(failures(ledger, By.CLASS)) == [("permanent", 2), ("unknown", 1)]
    assert counts(failures(ledger, By.QUEUE)) == [
        ("cron_scheduler", 2),
        ("cron_scheduler.reports", 1),
    ]
    assert counts(failures(ledger, By.TASK)) == [("report 25", 3)]
    assert sorted(counts(failures(ledger, By.SCHEDULE))) == [("a", 1), ("b", 1), ("c", 1)]
    assert sum(each.quarantined for each in failures(ledger, By.TYPE)) == 1


def test_tasks_are_counted_by_what_people_call_them(ledger: Ledger) -> None:
    ledger.schedules.save([draft("nightly", task_name="backup")], source="shop", now=ledger.now)
    ledger.save(draft("paid", task=ref_of_topic("orders.paid"), topic="orders.paid"))
    ledger.save(draft("by-hand"))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    for run in ledger.claim_due().claimed:
        ledger.finished(run, FOR_GOOD)
    called = [("backup", 1), ("orders.paid", 1), ("report 25", 1)]

    assert sorted(counts(failures(ledger, By.TASK))) == called
    found = ledger.statistics.executions(since=NOON, until=None, by=[By.TASK], limit=100)
    assert sorted((one.group[By.TASK], one.total) for one in found) == called


def test_of_the_archive_those_are_counted_that_a_filter_takes(ledger: Ledger) -> None:
    ledger.failed("a")
    ledger.clock.advance(DAY)
    resolved = ledger.failed("b")
    ledger.records.discard([resolved.id], note="seen", now=ledger.now)
    late = FailureFilter(since=ledger.now - MINUTE, unresolved=False)

    assert counts(failures(ledger, By.DAY, which=UNRESOLVED)) == [("2026-03-02", 1)]
    [counted] = failures(ledger, By.DAY, which=late)
    assert (counted.failures, counted.unresolved) == (1, 0)
    assert failures(ledger, By.DAY, which=FailureFilter(until=NOON)) == []


def test_executions_are_counted_without_skipped_ones(ledger: Ledger) -> None:
    ledger.succeeded(ledger.claimed("a"))
    ledger.succeeded(ledger.finished(ledger.claimed("b"), IN_30_S))
    ledger.failed("c", task=WORKER)

    def executions(**asked: object) -> list[ExecutionCount]:
        whole = {"since": NOON, "until": None, "by": [By.DAY, By.TYPE], "limit": 100}
        return [*ledger.statistics.executions(**{**whole, **asked})]  # type: ignore[arg-type]

    reports, workers = executions()
    assert reports.group == {By.DAY: "2026-03-02", By.TYPE: "report"}
    assert (reports.total, reports.succeeded, reports.failed, reports.retried) == (2, 2, 0, 1)
    assert reports.mean_attempts == pytest.approx(1.5)
    assert reports.retry_rate == pytest.approx(0.5)
    assert (workers.total, workers.failed) == (1, 1)
    named = {each.group[By.SCHEDULE]: each.total for each in executions(by=[By.SCHEDULE])}
    assert named == {"a": 1, "b": 1, "c": 1}
    assert executions(since=ledger.now + MINUTE) == []
    assert executions(until=NOON + MINUTE) == []


def due_each_minute(ledger: Ledger, *names: str) -> dict[str, Execution]:
    for name in names:
        ledger.add(name, schedule="* * * * *")
    ledger.clock.advance(MINUTE)
    return {one.schedule_name: one for one in ledger.claim_due().claimed}


def test_the_last_results_are_of_schedules_that_are_due_again(ledger: Ledger) -> None:
    ledger.succeeded(ledger.claimed("once"))
    due = due_each_minute(ledger, "a", "b", "c")
    ledger.succeeded(due["a"])
    ledger.finished(due["b"], FOR_GOOD)
    ended = ledger.seen(due["a"]).finished_at
    ledger.clock.advance(MINUTE)
    again = {one.schedule_name: one for one in ledger.claim_due().claimed}
    ledger.succeeded(again["b"])

    found = ledger.statistics.last_results(limit=10)

    assert [one.schedule for one in found.results] == ["a", "b", "c"]
    a, b, c = found.results
    assert a == ScheduleResult(schedule="a", succeeded_at=ended, failed_at=None)
    assert (b.failed_at, b.succeeded_at) == (ended, ledger.seen(again["b"]).finished_at)
    assert (c.succeeded_at, c.failed_at, found.unread) == (None, None, 0)


def test_what_has_no_times_is_told_of_while_it_is_enabled(ledger: Ledger) -> None:
    by_hand = partial(draft, schedule=None)
    ledger.save(by_hand("hand"), by_hand("off", status=False), by_hand("new"))
    ledger.plan_edited()
    [hand] = ledger.schedules.schedules(["hand"])
    run = ledger.run_now(hand.id, "manual-1", node="bee")
    ended = ledger.finished(run, FOR_GOOD).finished_at

    found = ledger.statistics.last_results(limit=10).results

    assert {(one.schedule, one.failed_at) for one in found} == {("hand", ended), ("new", None)}
    assert ledger.statistics.last_results(limit=1).unread == 1


def test_of_many_schedules_some_are_told_of_and_the_others_are_counted(ledger: Ledger) -> None:
    due_each_minute(ledger, "a", "b", "c")
    ledger.schedules.switch(["b"], on=False, now=ledger.now)
    ledger.plan_edited()

    [told] = ledger.statistics.last_results(limit=1).results
    assert (told.schedule, ledger.statistics.last_results(limit=1).unread) == ("a", 1)
    assert ledger.statistics.last_results(limit=0) == ScheduleResults(results=[], unread=2)


def test_rows_are_estimated_by_the_span_of_their_ids(ledger: Ledger) -> None:
    assert ledger.statistics.rows() == {"executions": 0, "failures": 0, "events": 0}
    ledger.succeeded(ledger.claimed("a"))
    ledger.failed("b")
    ledger.failed("c")

    rows = ledger.statistics.rows()
    assert (rows["executions"], rows["failures"]) == (3, 2)
