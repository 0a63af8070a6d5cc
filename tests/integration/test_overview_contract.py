"""What every ledger promises of overviews: what is looked at often, what ran when, statistics."""

from datetime import datetime
from functools import partial

import pytest

from cronhare.domain.events.judging import alert
from cronhare.domain.events.rules import Rule
from cronhare.domain.execution import Execution, State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, FailureFilter
from cronhare.domain.retries.outcome import ErrorClass, TaskError
from cronhare.domain.retries.retry import Fail, Quarantine
from cronhare.domain.schedules.catalog import ref_of_topic
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.records import Counts, Ran
from cronhare.ports.statistics import (
    By,
    ExecutionCount,
    FailureCount,
    ScheduleResult,
)
from tests.integration.ledgers import (
    DAY,
    FOR_GOOD,
    HOUR,
    IN_30_S,
    MINUTE,
    NOON,
    SECOND,
    Ledger,
    draft,
)


def test_the_newest_runs_of_many_schedules_come_at_once_the_oldest_first(ledger: Ledger) -> None:
    first = ledger.claimed("a")
    ledger.succeeded(first)
    other = ledger.claimed("b")
    ledger.failed("c")
    ledger.clock.advance(MINUTE)
    second = ledger.claimed("a")
    ledger.finish(ledger.started(second), FOR_GOOD)
    ids = [first.scheduler_id, other.scheduler_id, 2**40]

    found = ledger.overview.recent(ids, each=20)

    assert [(run.id, run.state) for run in found[first.scheduler_id]] == [
        (first.id, State.SUCCEEDED),
        (second.id, State.FAILED),
    ]
    assert [run.id for run in found[other.scheduler_id]] == [other.id]
    assert found.keys() == {first.scheduler_id, other.scheduler_id}
    [newest] = ledger.overview.recent(ids, each=1)[first.scheduler_id]
    assert newest.id == second.id
    last = ledger.succeeded(ledger.claimed("b"))  # what has not ended is newer
    found = ledger.overview.recent([other.scheduler_id], each=2)
    assert [run.id for run in found[other.scheduler_id]] == [last.id, other.id]


def test_what_is_due_next_comes_in_its_order_without_the_systems_own(ledger: Ledger) -> None:
    ledger.add("later", schedule="30 * * * *")
    ledger.add("soon")
    ledger.add("never", schedule="0 8 1 1 *")
    ledger.add("off", status=False)
    soon = ledger.now + MINUTE

    found = ledger.overview.coming(ledger.now, ledger.now + HOUR, limit=10)

    assert [(each.name, each.due_at) for each in found] == [
        ("soon", soon),
        ("later", soon.replace(minute=30)),
    ]
    assert ledger.overview.coming(ledger.now, ledger.now + HOUR, limit=1) == found[:1]
    assert ledger.overview.coming(soon + SECOND, ledger.now + HOUR, limit=9) == found[1:]
    assert ledger.overview.coming(ledger.now, soon, limit=9) == []
    counted = ledger.overview.count_coming(ledger.now, ledger.now + HOUR)
    assert counted == {soon: 1, soon.replace(minute=30): 1}


def test_schedules_that_no_scheduler_has_planned_are_counted_so_far(ledger: Ledger) -> None:
    ledger.add("planned")
    ledger.add("edited")
    ledger.add("off")
    ledger.clock.advance(MINUTE)
    ledger.save(draft("new"), draft("another"), draft("edited", schedule="7 7 * * *"))
    ledger.disable("off")

    assert ledger.overview.count_unplanned(most=9) == 3
    assert ledger.overview.count_unplanned(most=2) == 2
    ledger.plan_edited()
    assert ledger.overview.count_unplanned(most=9) == 0


def test_what_was_due_and_has_not_begun_waits(ledger: Ledger) -> None:
    claimed, published = ledger.claimed("a"), ledger.published("b")
    ledger.running("c")
    ledger.succeeded(ledger.claimed("d"))
    due = max(claimed.due_at, published.due_at)

    assert {*ledger.overview.waiting(due + SECOND, limit=9)} == {claimed.id, published.id}
    assert len(ledger.overview.waiting(due + SECOND, limit=1)) == 1
    assert ledger.overview.waiting(claimed.due_at, limit=9) == []


def test_what_is_in_a_state_and_what_failed_is_counted_so_far(ledger: Ledger) -> None:
    for name in "abc":
        ledger.running(name)
    ledger.failed("d")
    resolved = ledger.failed("e")
    ledger.records.discard([resolved.id], note="seen", now=ledger.now)

    found = ledger.overview.count(most=2)

    assert found == Counts(running=2, retrying=0, unresolved=1, alerts=0)


def test_alerts_that_hold_are_counted_so_far(ledger: Ledger) -> None:
    ledger.alerts.begin(now=ledger.now, every=MINUTE)
    one, *_ = held = [alert(rule, "6 failed", now=ledger.now, value=6) for rule in Rule]
    ledger.alerts.keep([one], now=ledger.now, ended_at=ledger.now)
    for _ in range(10):  # judged so for long enough
        ledger.clock.advance(MINUTE)
        ledger.alerts.keep(held[1:], now=ledger.now, ended_at=ledger.now)

    assert ledger.overview.count(most=99).alerts == len(Rule) - 1
    assert ledger.overview.count(most=3).alerts == 3


# What ran when


def ran(ledger: Ledger, since: datetime, until: datetime, *, limit: int = 99) -> list[Ran]:
    found = ledger.timeline.ran(since, until, limit=limit)
    assert found.since is None
    return [*found.ran]


def names(found: list[Ran]) -> list[str]:
    return [each.schedule_name for each in found]


def test_an_attempt_is_told_with_its_times_and_its_end(ledger: Ledger) -> None:
    started = ledger.running("report", node="bee")
    ledger.clock.advance(SECOND)
    ledger.finish(started, FOR_GOOD, node="bee")

    [found] = ran(ledger, ledger.now - MINUTE, ledger.now + MINUTE)

    assert found == Ran(
        execution_id=started.id,
        attempt=1,
        scheduler_id=started.scheduler_id,
        schedule_name="report",
        node="bee",
        started_at=ledger.now - SECOND,
        finished_at=ledger.now,
        ending="failed",
    )


def test_what_ended_before_or_began_after_is_left_out(ledger: Ledger) -> None:
    ledger.succeeded(ledger.claimed("before"))
    since = ledger.now + SECOND
    ledger.succeeded(ledger.claimed("in"))
    until = ledger.now + SECOND
    ledger.succeeded(ledger.claimed("after"))

    assert names(ran(ledger, since, until)) == ["in"]


def test_what_runs_into_the_window_is_told_if_it_was_claimed_in_the_day_before(
    ledger: Ledger,
) -> None:
    ledger.running("too-long")
    ledger.clock.advance(2 * HOUR)
    ledger.running("long")
    ledger.clock.advance(23 * HOUR)

    assert names(ran(ledger, ledger.now, ledger.now + MINUTE)) == ["long"]


def test_of_too_many_those_claimed_last_are_told_and_from_when_on(ledger: Ledger) -> None:
    begin = ledger.now
    for name in ("a", "b", "c"):
        ledger.succeeded(ledger.claimed(name))

    found = ledger.timeline.ran(begin, ledger.now + MINUTE, limit=2)

    assert names([*found.ran]) == ["c", "b"]
    assert found.since == begin + MINUTE


# Statistics


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


def test_rows_are_estimated_by_the_span_of_their_ids(ledger: Ledger) -> None:
    assert ledger.statistics.rows() == {"executions": 0, "failures": 0, "events": 0}
    ledger.succeeded(ledger.claimed("a"))
    ledger.failed("b")
    ledger.failed("c")

    rows = ledger.statistics.rows()
    assert (rows["executions"], rows["failures"]) == (3, 2)
