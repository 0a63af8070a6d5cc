"""The runner of reminders: an attempt tells each target once."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

import attrs

from cronhare.adapters.coroutine_attempts import CoroutineRunner, failed
from cronhare.domain.events.events import Event, bounded, id_of
from cronhare.domain.events.outbox import OutboxRow
from cronhare.domain.events.targets import Subscribers, Target
from cronhare.domain.reading import Invalid
from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.schedules.work import message_of
from cronhare.domain.texts.words import listed
from cronhare.ports.events import MailContent, NotDelivered, NotifierPort
from cronhare.ports.runner import AttemptResult, Captured, Invocation

from .mail import PartlyTaken


class ReminderRunner(CoroutineRunner):
    """Runs tasks that have a `Task.reminder`. Satisfies `TaskRunnerPort`.

    A target that was told is not told again by a retry here; by another worker's it is, with the
    same id.
    """

    def __init__(self, notifier: NotifierPort, subscribers: Subscribers) -> None:
        super().__init__()
        self._notifier = notifier
        self._subscribers = subscribers
        self._partly = PartlyTaken()

    async def close(self) -> None:
        await super().close()
        await self._notifier.close()

    async def _attempt(self, invocation: Invocation) -> AttemptResult:
        reminder = invocation.task.reminder
        assert reminder is not None, "a task of ours"
        try:
            subject, text = message_of(
                reminder, invocation.params, schedule=invocation.schedule_name
            )
        except Invalid as invalid:
            return failed(f"params: {invalid}", ErrorClass.PERMANENT)
        found = {name: self._subscribers.current.target(name) for name in reminder.targets}
        if gone := [name for name, target in found.items() if target is None]:
            why = f"this worker's jobs file has no notify.{' and no notify.'.join(gone)}"
            return failed(why, ErrorClass.PERMANENT)
        told = self._partly.takers(invocation.execution_id)
        left = [target for name, target in found.items() if target and name not in told]
        mail = MailContent(subject=subject, text=text)
        try:
            async with asyncio.timeout(invocation.task.timeout.total_seconds()):
                answers = await asyncio.gather(
                    *(self._tell(target, invocation, mail) for target in left)
                )
        except TimeoutError:
            return failed("the targets took longer than the timeout", ErrorClass.TRANSIENT)
        pairs = zip(left, answers, strict=True)
        refusals = {target.name: answer for target, answer in pairs if answer is not None}
        stdout = _captured(f"{each.name}: told" for each in left if each.name not in refusals)
        if not refusals:
            self._partly.note(invocation.execution_id, (), is_over=True)
            return AttemptResult(outcome=Outcome(ending=Ending.SUCCEEDED), stdout=stdout)
        # It is worth a retry unless each of them refused for good.
        for_good = all(refusal.for_good for refusal in refusals.values())
        said = [f"{name} was not told: {refusal}" for name, refusal in refusals.items()]
        error = TaskError(
            message=listed(said),
            error_class=ErrorClass.PERMANENT if for_good else ErrorClass.TRANSIENT,
            retry_after=max(each.asked or timedelta(0) for each in refusals.values()) or None,
        )
        return AttemptResult(
            outcome=Outcome(ending=Ending.FAILED, error=error),
            stdout=stdout,
            stderr=_captured(f"{name}: {refusal}" for name, refusal in refusals.items()),
        )

    async def _tell(
        self, target: Target, invocation: Invocation, mail: MailContent
    ) -> NotDelivered | None:
        try:
            await self._notifier.notify(target, _written(invocation, mail, target.name), mail)
        except NotDelivered as refusal:
            return refusal
        told = self._partly.takers(invocation.execution_id) | {target.name}
        self._partly.note(invocation.execution_id, told, is_over=False)
        return None


def _written(invocation: Invocation, mail: MailContent, target: str) -> OutboxRow:
    """Write the message; it stands in no outbox, as its run is a row.

    Its id is the same in each attempt of the run, so that a target can know a repetition.
    """
    run, due_at = invocation.execution_id, invocation.due_at
    place = {"schedule": bounded(invocation.schedule_name), "executionId": run, "dueAt": due_at}
    event = Event(
        id=id_of("reminder", run, due_at),
        kind="reminder",
        schedule=invocation.schedule_name,
        scheduler_id=invocation.scheduler_id,
        execution_id=run,
        at=due_at,
        data={
            "scheduledJobId": invocation.scheduler_id,
            "subject": mail.subject,
            "text": mail.text,
            "attempt": invocation.attempt,
            "metadata": place,
        },
    )
    row = OutboxRow.of(event, target, source="", now=due_at)
    return attrs.evolve(row, tries=invocation.attempt, next_try_at=None)


def _captured(lines: Iterable[str]) -> Captured:
    text = "".join(f"{line}\n" for line in lines)
    return Captured(head=text, bytes=len(text.encode()))
