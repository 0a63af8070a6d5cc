"""What every ledger promises of event topics (S3.2, S3.3, C27 in docs/compatibility.md)."""

from typing import Any

import pytest

from cronhare.domain.execution import Execution, State
from cronhare.domain.messages import TaskMessage
from cronhare.domain.schedules.catalog import NoListener, ref_of_topic
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.ports.records import Unheard
from tests.integration.ledgers import FOR_GOOD, MINUTE, SECOND, Ledger, draft
from tests.ports import ids_of

TOPIC = "payments.charge-reminder"
REF = ref_of_topic(TOPIC)


def of_topic(**changes: Any) -> ScheduleDraft:  # noqa: ANN401
    return draft("charge", **{"task": REF, "topic": TOPIC, "params": '{"order":7}', **changes})


def claimed(ledger: Ledger, **changes: Any) -> Execution:  # noqa: ANN401
    ledger.save(of_topic(**changes))
    ledger.plan_edited()
    ledger.clock.advance(MINUTE)
    (execution,) = ledger.claim_due().claimed
    return execution


def adopted(ledger: Ledger, ref: TaskRef) -> Execution:
    id_ = ids_of(ledger.schedules, ["charge"])["charge"]
    message = TaskMessage(type=ref.type, id=ref.id, scheduler_id=id_, params_scheduler="{}")
    answer = ledger.attempts.adopt(
        message, key=f"manual-{ref.id}", queue="q", deaths=0, now=ledger.now, node="ant"
    )
    assert isinstance(answer, Execution)
    return answer


@pytest.mark.parametrize("no_listener", NoListener)
def test_a_run_keeps_its_topic_and_what_becomes_of_it_unheard(
    ledger: Ledger, no_listener: NoListener
) -> None:
    execution = claimed(ledger, no_listener=no_listener)

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

    assert [adopted(ledger, ref).topic for ref in (REF, TaskRef("report", 1))] == [TOPIC, None]


def test_what_failed_is_archived_with_its_topic(ledger: Ledger) -> None:
    execution = ledger.started(claimed(ledger))

    assert ledger.finish(execution, FOR_GOOD) is State.FAILED

    [archived] = ledger.records.archive()
    assert archived.topic == TOPIC


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
