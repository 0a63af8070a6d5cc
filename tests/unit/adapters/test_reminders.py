"""Reminders: who is told what, and what their answers mean for the attempt."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from cronhare.adapters.notify.reminders import ReminderRunner
from cronhare.domain.events.outbox import OutboxRow, RunEnd
from cronhare.domain.events.targets import ByEmail, Subscribers, Subscriptions, Target
from cronhare.domain.retries.outcome import Ending, ErrorClass
from cronhare.domain.schedules.reminder import LONGEST_SUBJECT, Reminder
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.ports.events import MailContent, NotDelivered
from cronhare.ports.runner import AttemptResult, Invocation, StopReason

EIGHT = datetime(2025, 12, 12, 8, tzinfo=UTC)
BY_MAIL = ByEmail(to=("ann@example.org",))


@attrs.define
class Notifier:
    """Answers as told; targets in *silent* never answer."""

    answers: Mapping[str, list[NotDelivered | None]] = attrs.field(factory=dict)
    silent: tuple[str, ...] = ()
    told: list[tuple[str, OutboxRow, MailContent | None]] = attrs.field(factory=list)
    closed: bool = False

    async def notify(
        self,
        target: Target,
        event: OutboxRow,
        mail: MailContent | None = None,
        end: RunEnd | None = None,  # noqa: ARG002 - the port's
    ) -> None:
        if target.name in self.silent:
            await asyncio.Event().wait()
        answers = self.answers.get(target.name)
        if answers and (refusal := answers.pop(0)) is not None:
            raise refusal
        self.told.append((target.name, event, mail))

    async def close(self) -> None:
        self.closed = True

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.told]


def runner(notifier: Notifier) -> ReminderRunner:
    targets = {name: Target(name=name, means=BY_MAIL) for name in ("ann", "ops")}
    return ReminderRunner(notifier, Subscribers(Subscriptions(targets=targets)))


def invocation(params: object = None, *, id_: int = 7, attempt: int = 1, **said: Any) -> Invocation:  # noqa: ANN401
    reminder = Reminder(**{"targets": ("ann", "ops"), "text": "Water the plants", **said})
    return Invocation(
        execution_id=id_,
        execution_key="once-2025-12-12-8-0",
        scheduler_id=16,
        schedule_name="plants",
        attempt=attempt,
        deaths=attempt - 1,
        due_at=EIGHT,
        fence=9,
        params={} if params is None else params,
        task=Task(
            name="plants",
            ref=TaskRef("reminder", 5),
            reminder=reminder,
            timeout=timedelta(seconds=20),
        ),
    )


async def test_each_target_is_told_at_its_time() -> None:
    notifier = Notifier()

    ran = await runner(notifier).run(invocation(subject="Plants"))

    assert (ran.outcome.ending, ran.stdout.head) == (Ending.SUCCEEDED, "ann: told\nops: told\n")
    assert notifier.names == ["ann", "ops"]
    _, event, mail = notifier.told[0]
    assert mail == MailContent(subject="Plants", text="Water the plants")
    document = json.loads(event.payload)
    assert (document["type"], document["timestamp"]) == (
        "schedule.reminder",
        "2025-12-12T08:00:00Z",
    )
    assert document["id"] == event.event_key
    assert document["data"] == {
        "scheduledJobId": 16,
        "subject": "Plants",
        "text": "Water the plants",
        "attempt": 1,
        "metadata": {"schedule": "plants", "executionId": 7, "dueAt": "2025-12-12T08:00:00Z"},
    }


async def test_params_may_say_otherwise_and_the_schedule_is_the_usual_subject() -> None:
    notifier = Notifier()

    await runner(notifier).run(invocation({"text": "Feed the cat"}))

    assert notifier.told[0][2] == MailContent(subject="plants", text="Feed the cat")


@pytest.mark.parametrize(
    "params",
    [
        {"subject": "two\nlines"},
        {"subject": "s" * (LONGEST_SUBJECT + 1)},
        {"text": "a\0b"},
        {"text": "\ud800"},
    ],
)
async def test_hostile_params_fail_for_good_and_tell_nobody(params: object) -> None:
    notifier = Notifier()
    reminders = runner(notifier)

    ran = await reminders.run(invocation(params))
    await reminders.run(invocation(id_=8))  # an innocent neighbour

    assert ran.outcome.error is not None
    assert ran.outcome.error.error_class is ErrorClass.PERMANENT
    assert {event.execution_id for _, event, _ in notifier.told} == {8}


async def test_a_retry_tells_those_that_were_not_told() -> None:
    notifier = Notifier({"ops": [NotDelivered("busy", asked=timedelta(seconds=9)), None]})
    reminders = runner(notifier)

    first = await reminders.run(invocation())
    second = await reminders.run(invocation(attempt=2))

    error = first.outcome.error
    assert error is not None
    assert (error.message, error.error_class) == (
        "ops was not told: busy",
        ErrorClass.TRANSIENT,
    )
    assert error.retry_after == timedelta(seconds=9)
    assert (first.stdout.head, first.stderr.head) == ("ann: told\n", "ops: busy\n")
    assert second.outcome.ending is Ending.SUCCEEDED
    assert notifier.names == ["ann", "ops"]


async def test_a_target_that_a_reload_took_away_fails_for_good() -> None:
    ran = await runner(Notifier()).run(invocation(targets=("ann", "gone")))

    assert ran.outcome.error is not None
    assert "has no notify.gone" in ran.outcome.error.message


async def test_targets_that_do_not_answer_are_given_up_at_the_timeout() -> None:
    brief = invocation()
    task = attrs.evolve(brief.task, timeout=timedelta(milliseconds=1))

    ran = await runner(Notifier(silent=("ops",))).run(attrs.evolve(brief, task=task))

    assert ran.outcome.error is not None
    assert ran.outcome.error.error_class is ErrorClass.TRANSIENT


@pytest.mark.parametrize("reason", [StopReason.CANCELLED, StopReason.LEASE_LOST])
async def test_a_reminder_can_be_stopped(reason: StopReason) -> None:
    reminders = runner(Notifier(silent=("ann", "ops")))
    running: asyncio.Task[AttemptResult] = asyncio.create_task(reminders.run(invocation()))
    await asyncio.sleep(0)

    assert reminders.stop(7, reason)

    assert (await running).outcome.ending is reason.ending
    assert not reminders.stop(7, reason)


async def test_what_all_refuse_for_good_is_not_tried_again() -> None:
    refusal = NotDelivered("no such user", for_good=True)

    ran = await runner(Notifier({"ann": [refusal], "ops": [refusal]})).run(invocation())

    assert ran.outcome.error is not None
    assert ran.outcome.error.error_class is ErrorClass.PERMANENT
