"""What every ledger promises of the names of tasks, sources, queues and topics."""

from typing import Any

import pytest

from cronhare.domain.execution import Execution
from cronhare.domain.lifecycle.archive import Archived, Failure
from cronhare.domain.messages import (
    FailedMessage,
    Signer,
    TaskMessage,
    read,
    task_body,
)
from cronhare.domain.schedules.catalog import NoListener, ref_of_topic
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.records import Unheard
from tests.integration.ledgers import FOR_GOOD, MINUTE, NOON, SECOND, Ledger, draft
from tests.ports import ids_of

BACKUP = TaskRef("worker", 7)
IMPORT = TaskRef("import", 3)
PAID = "orders.paid"


def test_the_numbers_of_a_task_are_those_that_its_schedules_have(ledger: Ledger) -> None:
    drafts = [
        draft("a", task_name="backup", task=BACKUP),
        draft("b", task_name="tokens"),
        draft("c", task_name="backup", task=IMPORT),
        draft("d", task_name="backup", task=BACKUP),
    ]
    ledger.schedules.save(drafts, source="shop", now=ledger.now)

    assert {*ledger.names.numbers_of("backup")} == {BACKUP, IMPORT}
    assert not ledger.names.numbers_of("nobody")


def test_a_task_is_known_by_its_schedules(ledger: Ledger) -> None:
    named = [draft("a", task_name="backup", task=BACKUP, status=False)]
    ledger.schedules.save(named, source="shop", now=ledger.now)
    ledger.save(draft("b", task=IMPORT), draft("c", task=ref_of_topic(PAID), topic=PAID))

    assert ledger.names.has_task("backup", ())
    assert ledger.names.has_task("worker 7", ())
    assert ledger.names.has_task("import 3", ())
    assert ledger.names.has_task("imports", [IMPORT])
    assert ledger.names.has_task(PAID, [ref_of_topic(PAID)])
    assert not ledger.names.has_task("restore", [BACKUP, TaskRef("report", 99)])
    assert not ledger.names.has_task("report 99", ())
    assert not ledger.names.has_task("report 9999999999", ())


def test_a_task_is_known_as_long_as_a_run_or_a_failure_is_of_it(ledger: Ledger) -> None:
    claimed(ledger, task=BACKUP)
    ledger.failed("failed", task=TaskRef("worker", 8))
    ledger.save(draft("nightly", task=IMPORT), draft("failed", task=IMPORT))

    known = [("backup", []), ("worker 7", ()), ("worker 8", ()), ("mails", [TaskRef("worker", 8)])]
    assert all(ledger.names.has_task(*each) for each in known)
    assert not ledger.names.has_task("mails", ())
    assert not ledger.names.numbers_of("backup")


def test_a_queue_is_known_by_schedules_and_by_what_is_left(ledger: Ledger) -> None:
    ledger.save(draft("a", queue="quiet", status=False))
    ledger.failed("b", queue="failing")
    ledger.claimed("c", queue="waiting")
    ledger.save(draft("b"), draft("c"))

    known = [ledger.names.has_queue(name) for name in ("quiet", "failing", "waiting", "gone")]
    assert known == [True, True, True, False]


def test_a_type_is_known_by_schedules_and_by_failures(ledger: Ledger) -> None:
    ledger.failed("a", task=TaskRef("mailing", 4))
    ledger.failed("b", task=BACKUP)
    ledger.save(draft("a", task=IMPORT), draft("b", task=TaskRef("report", 5)))

    known = [ledger.names.has_type(name) for name in ("import", "report", "mailing", "worker")]
    assert known == [True] * 4
    assert not any(ledger.names.has_type(name) for name in ("reminder", "wroker", "system"))


def test_jobs_files_are_known_by_their_schedules(ledger: Ledger) -> None:
    ledger.save(draft("by-hand"))
    for source in ("shop", "mails"):
        drafts = [draft(f"{source}-{n}", status=False) for n in range(2)]
        ledger.schedules.save(drafts, source=source, now=ledger.now)

    assert {*ledger.names.sources()} == {"shop", "mails"}


def test_tasks_are_suggested_that_come_near(ledger: Ledger) -> None:
    names = ("alpha", "beta", "gamma", "delta", "beta")
    drafts = [draft(f"s-{number}", task_name=name) for number, name in enumerate(names)]
    ledger.schedules.save(drafts, source="shop", now=ledger.now)
    ledger.save(draft("by-hand"))

    assert [*ledger.names.tasks_near("bet", limit=100)] == ["alpha", "beta", "delta", "gamma"]
    assert [*ledger.names.tasks_near("bet", limit=2)] == ["alpha", "beta"]


# Whose task a run is of


REPORT_25 = TaskRef("report", 25)


def add(ledger: Ledger, name: str = "nightly", **changes: Any) -> int:  # noqa: ANN401
    """Write a schedule as the file `shop` has it, plan it, and give its id."""
    wanted = draft(name, **{"task_name": "backup", **changes})
    ledger.schedules.save([wanted], source="shop", now=ledger.now)
    ledger.plan_edited()
    return ids_of(ledger.schedules, [name])[name]


def claimed(ledger: Ledger, **changes: Any) -> Execution:  # noqa: ANN401
    add(ledger, **changes)
    ledger.clock.advance(MINUTE)
    (execution,) = ledger.claim_due().claimed
    return execution


def adopted(ledger: Ledger, scheduler_id: int, task: TaskRef) -> Execution:
    message = TaskMessage(
        type=task.type, id=task.id, scheduler_id=scheduler_id, params_scheduler="{}"
    )
    answer = ledger.attempts.adopt(
        message, key=f"theirs-{task}", queue="q", deaths=0, now=ledger.now, node="ant"
    )
    assert isinstance(answer, Execution)
    return answer


def test_a_run_by_time_or_by_hand_and_its_failure_keep_whose_task_it_is(ledger: Ledger) -> None:
    execution = claimed(ledger)
    by_hand = ledger.run_now(execution.scheduler_id, "manual-1")

    assert ledger.seen(execution) == execution
    started = ledger.started(execution)
    ledger.finished(by_hand, FOR_GOOD)
    (archived,) = ledger.records.archive()
    (again,) = ledger.records.replay([archived.id], now=ledger.now)
    of: list[Execution | Archived] = [execution, started, by_hand, archived, again]
    assert {(each.source, each.task_name) for each in of} == {("shop", "backup")}


@pytest.mark.parametrize(
    ("task", "name"),
    [(REPORT_25, "backup"), (TaskRef("report", 26), None), (TaskRef("worker", 25), None)],
)
def test_a_message_with_another_number_stays_within_the_source_of_its_schedule(
    ledger: Ledger, task: TaskRef, name: str | None
) -> None:
    answer = adopted(ledger, add(ledger), task)

    assert (answer.source, answer.task_name, answer.task) == ("shop", name, task)
    assert ledger.seen(answer) == answer


def test_a_failure_that_is_reported_with_another_number_has_no_name(ledger: Ledger) -> None:
    message = FailedMessage(
        type="worker",
        id=7,
        scheduler_id=add(ledger),
        params_scheduler="{}",
        failed_at="2026-03-02T12:00:00.000Z",
        failed_reason="the server did not answer",
        retry_count=3,
    )
    failure = Failure(message=message, failed_at=NOON, key="reported-1", ticket=None)

    archived = ledger.records.keep_failure(failure, now=ledger.now, node="ant")

    assert isinstance(archived, Archived)
    assert (archived.source, archived.task_name) == ("shop", None)


def test_a_task_may_have_a_type_of_ones_own(ledger: Ledger) -> None:
    execution = claimed(ledger, task=TaskRef("data-import", 7))

    assert execution.task == TaskRef("data-import", 7)
    assert ledger.started(execution).task == TaskRef("data-import", 7)
    assert read(task_body(execution), {}, Signer()) == TaskMessage(
        type="data-import", id=7, scheduler_id=execution.scheduler_id, params_scheduler="{}"
    )


# Event topics (S3.2, S3.3, C27 in docs/compatibility.md)


TOPIC = "payments.charge-reminder"
REF = ref_of_topic(TOPIC)


def of_topic(**changes: Any) -> ScheduleDraft:  # noqa: ANN401
    return draft("charge", **{"task": REF, "topic": TOPIC, "params": '{"order":7}', **changes})


@pytest.mark.parametrize("no_listener", NoListener)
def test_a_run_keeps_its_topic_and_what_becomes_of_it_unheard(
    ledger: Ledger, no_listener: NoListener
) -> None:
    ledger.save(of_topic(no_listener=no_listener))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    (execution,) = ledger.claim_due().claimed

    assert (execution.topic, execution.no_listener) == (TOPIC, no_listener)
    assert (execution.task, execution.params) == (REF, '{"order":7}')
    assert ledger.seen(execution) == execution
    assert ledger.started(execution).topic == TOPIC


def test_a_schedule_keeps_its_topic(ledger: Ledger) -> None:
    ledger.save(of_topic(no_listener=NoListener.FAIL))

    [stored] = ledger.schedules.schedules()
    assert stored.draft == of_topic(no_listener=NoListener.FAIL)

    ledger.save(draft("charge", task=TaskRef("worker", 3)))
    [stored] = ledger.schedules.schedules()
    assert stored.draft == draft("charge", task=TaskRef("worker", 3))


def test_a_message_is_of_the_topic_if_it_has_its_number(ledger: Ledger) -> None:
    ledger.save(of_topic())
    id_ = ids_of(ledger.schedules, ["charge"])["charge"]

    topics = [adopted(ledger, id_, ref).topic for ref in (REF, TaskRef("report", 1))]
    assert topics == [TOPIC, None]


def test_events_that_nobody_heard_are_counted_by_topic(ledger: Ledger) -> None:
    first = ledger.now
    for topic in (TOPIC, "event 7", TOPIC):
        ledger.clock.advance(SECOND)
        ledger.attempts.count_unheard(topic, now=ledger.now)

    assert list(ledger.records.unheard(limit=9)) == [
        Unheard(topic="event 7", count=1, last_at=first + 2 * SECOND),
        Unheard(topic=TOPIC, count=2, last_at=first + 3 * SECOND),
    ]
    assert len(ledger.records.unheard(limit=1)) == 1
