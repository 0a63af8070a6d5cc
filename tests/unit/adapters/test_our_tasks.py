"""Tasks that are no processes: requests over HTTP, and reminders."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from cronhare.adapters.http.task_runner import HttpTaskRunner
from cronhare.adapters.notify.reminders import ReminderRunner
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.outbox import OutboxRow, RunEnd
from cronhare.domain.events.targets import ByEmail, Subscribers, Subscriptions, Target
from cronhare.domain.retries.outcome import Ending, ErrorClass, TaskError
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.schedules.work import LONGEST_SUBJECT, HttpCall, Reminder
from cronhare.ports.events import MailContent, NotDelivered
from cronhare.ports.runner import AttemptResult, Invocation, StopReason
from cronhare.ports.system import HttpAnswer, HttpFailed, HttpRefused, HttpRequest

EIGHT = datetime(2025, 12, 12, 8, tzinfo=UTC)
SHOP = WebAddress.parse("https://shop.example/nightly?key=SECRET")


@attrs.define
class Http:
    """Answers each request alike, or never."""

    answer: HttpAnswer | Exception | None
    asked: list[HttpRequest] = attrs.field(factory=list)

    async def send(self, request: HttpRequest) -> HttpAnswer:
        self.asked.append(request)
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


def invocation(params: object = None, **call: Any) -> Invocation:  # noqa: ANN401
    return Invocation(
        execution_id=7,
        execution_key="cron-2025-12-12-8-0",
        scheduler_id=16,
        schedule_name="nightly",
        attempt=2,
        deaths=1,
        due_at=EIGHT,
        fence=9,
        params={"customer": 42} if params is None else params,
        task=Task(
            name="nightly",
            ref=TaskRef("worker", 25),
            http=HttpCall(address=SHOP, **call),
            timeout=timedelta(seconds=20),
        ),
    )


def error_of(ran: AttemptResult) -> TaskError:
    assert ran.outcome.error is not None
    return ran.outcome.error


async def test_params_are_posted_as_json_with_what_tells_the_run_from_others() -> None:
    http = Http(HttpAnswer(status=202, body=b"accepted"))
    runner = HttpTaskRunner(http, {"TOKEN": "Bearer x\n"})

    ran = await runner.run(invocation(headers_env={"Authorization": "TOKEN"}))

    [asked] = http.asked
    assert (asked.method, asked.address, asked.body) == ("POST", SHOP, b'{"customer":42}')
    assert asked.timeout == timedelta(seconds=20)
    assert asked.headers == {
        "Content-Type": "application/json",
        "Authorization": "Bearer x",
        "Idempotency-Key": "16-7",
        "Cron-Execution-Id": "7",
        "Cron-Execution-Key": "cron-2025-12-12-8-0",
        "Cron-Attempt": "2",
        "Cron-Due-At": "2025-12-12T08:00:00Z",
        "Cron-Fence": "9",
    }
    assert ran.outcome.ending is Ending.SUCCEEDED
    assert ran.stdout.head == "accepted"
    assert ran.stderr.head == "POST https://shop.example: 202 Accepted, 8 bytes\n"


@pytest.mark.parametrize(
    ("answer", "error_class", "said"),
    [
        (HttpAnswer(status=503), ErrorClass.TRANSIENT, "503 Service Unavailable"),
        (HttpAnswer(status=429), ErrorClass.RATE_LIMITED, "429 Too Many Requests"),
        (HttpAnswer(status=404, body=b"no\nsuch"), ErrorClass.PERMANENT, "404 Not Found: no"),
        (HttpFailed("connection refused"), ErrorClass.TRANSIENT, "connection refused"),
        (HttpRefused("10.0.0.1 is private"), ErrorClass.PERMANENT, "10.0.0.1 is private"),
    ],
)
async def test_what_is_no_success_is_a_failure_with_its_class(
    answer: HttpAnswer | Exception, error_class: ErrorClass, said: str
) -> None:
    ran = await HttpTaskRunner(Http(answer), {}).run(invocation())

    assert (ran.outcome.ending, error_of(ran).error_class) == (Ending.FAILED, error_class)
    assert said in error_of(ran).message
    assert "SECRET" not in error_of(ran).message


async def test_a_file_may_count_other_statuses_as_success() -> None:
    called = invocation(success=frozenset({404}))

    gone = await HttpTaskRunner(Http(HttpAnswer(status=404)), {}).run(called)
    found = await HttpTaskRunner(Http(HttpAnswer(status=200)), {}).run(called)

    assert gone.outcome.ending is Ending.SUCCEEDED
    assert error_of(found).code == "HTTP200"


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        ("120", (timedelta(minutes=2), None)),
        ("Fri, 12 Dec 2025 08:00:00 GMT", (None, EIGHT)),
        ("soon", (None, None)),
    ],
)
async def test_a_retry_after_is_passed_on(
    retry_after: str, expected: tuple[timedelta | None, datetime | None]
) -> None:
    answer = HttpAnswer(status=503, headers={"retry-after": retry_after})

    error = error_of(await HttpTaskRunner(Http(answer), {}).run(invocation()))

    assert (error.retry_after, error.retry_at) == expected


async def test_a_variable_that_is_not_set_fails_the_task_and_asks_nobody() -> None:
    http = Http(HttpAnswer(status=200))

    ran = await HttpTaskRunner(http, {}).run(invocation(headers_env={"X-Token": "TOKEN"}))

    assert "environment has no TOKEN, for X-Token" in error_of(ran).message
    assert http.asked == []


@pytest.mark.parametrize(
    ("reasons", "ending"),
    [
        ([StopReason.CANCELLED], Ending.CANCELLED),
        ([StopReason.INTERRUPTED, StopReason.CANCELLED], Ending.INTERRUPTED),
        ([StopReason.CANCELLED, StopReason.LEASE_LOST], Ending.LOST),
    ],
)
async def test_an_answer_is_not_waited_for_once_it_is_stopped(
    reasons: list[StopReason], ending: Ending
) -> None:
    runner = HttpTaskRunner(Http(None), {})
    running = asyncio.create_task(runner.run(invocation()))
    await asyncio.sleep(0)

    stopped = [runner.stop(7, reason) for reason in reasons]

    assert stopped == [True] * len(reasons)
    assert (await running).outcome.ending is ending
    assert not runner.stop(7, StopReason.CANCELLED)


async def test_closing_interrupts_what_runs() -> None:
    runner = HttpTaskRunner(Http(None), {})
    running = asyncio.create_task(runner.run(invocation()))
    await asyncio.sleep(0)

    await runner.close()

    assert (await running).outcome.ending is Ending.INTERRUPTED


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


def reminding(notifier: Notifier) -> ReminderRunner:
    targets = {name: Target(name=name, means=BY_MAIL) for name in ("ann", "ops")}
    return ReminderRunner(notifier, Subscribers(Subscriptions(targets=targets)))


def remembering(
    params: object = None,
    *,
    id_: int = 7,
    attempt: int = 1,
    **said: Any,  # noqa: ANN401
) -> Invocation:
    reminder = Reminder(**{"targets": ("ann", "ops"), "text": "Water the plants", **said})
    task = Task(
        name="plants", ref=TaskRef("reminder", 5), reminder=reminder, timeout=timedelta(seconds=20)
    )
    return attrs.evolve(
        invocation({} if params is None else params),
        execution_id=id_,
        schedule_name="plants",
        attempt=attempt,
        deaths=attempt - 1,
        task=task,
    )


async def test_each_target_is_told_at_its_time() -> None:
    notifier = Notifier()

    ran = await reminding(notifier).run(remembering(subject="Plants"))

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

    await reminding(notifier).run(remembering({"text": "Feed the cat"}))

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
    reminders = reminding(notifier)

    ran = await reminders.run(remembering(params))
    await reminders.run(remembering(id_=8))  # an innocent neighbour

    assert error_of(ran).error_class is ErrorClass.PERMANENT
    assert {event.execution_id for _, event, _ in notifier.told} == {8}


async def test_a_retry_tells_those_that_were_not_told() -> None:
    notifier = Notifier({"ops": [NotDelivered("busy", asked=timedelta(seconds=9)), None]})
    reminders = reminding(notifier)

    first = await reminders.run(remembering())
    second = await reminders.run(remembering(attempt=2))

    error = error_of(first)
    assert (error.message, error.error_class) == ("ops was not told: busy", ErrorClass.TRANSIENT)
    assert error.retry_after == timedelta(seconds=9)
    assert (first.stdout.head, first.stderr.head) == ("ann: told\n", "ops: busy\n")
    assert second.outcome.ending is Ending.SUCCEEDED
    assert notifier.names == ["ann", "ops"]


async def test_a_target_that_a_reload_took_away_fails_for_good() -> None:
    ran = await reminding(Notifier()).run(remembering(targets=("ann", "gone")))

    assert "has no notify.gone" in error_of(ran).message


async def test_targets_that_do_not_answer_are_given_up_at_the_timeout() -> None:
    brief = remembering()
    task = attrs.evolve(brief.task, timeout=timedelta(milliseconds=1))

    ran = await reminding(Notifier(silent=("ops",))).run(attrs.evolve(brief, task=task))

    assert error_of(ran).error_class is ErrorClass.TRANSIENT


async def test_what_all_refuse_for_good_is_not_tried_again() -> None:
    refusal = NotDelivered("no such user", for_good=True)

    ran = await reminding(Notifier({"ann": [refusal], "ops": [refusal]})).run(remembering())

    assert error_of(ran).error_class is ErrorClass.PERMANENT
