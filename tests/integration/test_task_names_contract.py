"""What every ledger promises of sources and of the names of tasks."""

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
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.attempts import Busy, Refused
from tests.integration.ledgers import EVERY_MINUTE, FOR_GOOD, MINUTE, NOON, Ledger, draft
from tests.ports import ids_of

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


def adopted(ledger: Ledger, scheduler_id: int, task: TaskRef) -> Execution | Refused | Busy:
    message = TaskMessage(
        type=task.type, id=task.id, scheduler_id=scheduler_id, params_scheduler="{}"
    )
    return ledger.attempts.adopt(
        message, key="foreign-1", queue="cron_scheduler", deaths=0, now=ledger.now, node="ant"
    )


def test_an_execution_keeps_whose_task_it_runs(ledger: Ledger) -> None:
    execution = claimed(ledger)

    assert (execution.source, execution.task_name) == ("shop", "backup")
    assert ledger.seen(execution) == execution
    assert ledger.started(execution).task_name == "backup"


def test_what_was_skipped_a_manual_run_and_a_failure_are_named_too(ledger: Ledger) -> None:
    scheduler_id = add(ledger, **EVERY_MINUTE)
    by_hand = ledger.run_now(scheduler_id, "manual-1")

    ledger.finished(by_hand, FOR_GOOD)

    (archived,) = ledger.records.archive()
    assert (by_hand.source, by_hand.task_name) == ("shop", "backup")
    assert (archived.source, archived.task_name) == ("shop", "backup")
    (again,) = ledger.records.replay([archived.id], now=ledger.now)
    assert (again.source, again.task_name) == ("shop", "backup")


def test_a_message_with_the_number_of_its_schedule_means_its_task(ledger: Ledger) -> None:
    answer = adopted(ledger, add(ledger), REPORT_25)

    assert isinstance(answer, Execution)
    assert (answer.source, answer.task_name, answer.task) == ("shop", "backup", REPORT_25)


@pytest.mark.parametrize("task", [TaskRef("report", 26), TaskRef("worker", 25)])
def test_a_message_with_another_number_stays_within_the_source_of_its_schedule(
    ledger: Ledger, task: TaskRef
) -> None:
    answer = adopted(ledger, add(ledger), task)

    assert isinstance(answer, Execution)
    assert (answer.source, answer.task_name, answer.task) == ("shop", None, task)
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


def test_a_type_of_ones_own_can_become_one_of_the_four(ledger: Ledger) -> None:
    add(ledger, task=TaskRef("data-import", 7))
    add(ledger, task=TaskRef("worker", 7))

    [stored] = ledger.schedules.schedules()
    assert (stored.problem, stored.draft and stored.draft.task) == (None, TaskRef("worker", 7))
