import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from cronhare.adapters.http.task_runner import HttpTaskRunner
from cronhare.domain.addresses import WebAddress
from cronhare.domain.retries.outcome import Ending, ErrorClass
from cronhare.domain.schedules.http_call import HttpCall
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.ports.runner import Invocation, StopReason
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
        (HttpAnswer(status=599), ErrorClass.TRANSIENT, "answered 599"),
        (HttpAnswer(status=429), ErrorClass.RATE_LIMITED, "429 Too Many Requests"),
        (HttpAnswer(status=404, body=b"no\nsuch"), ErrorClass.PERMANENT, "404 Not Found: no"),
        (HttpAnswer(status=302), ErrorClass.PERMANENT, "302 Found"),
        (HttpFailed("connection refused"), ErrorClass.TRANSIENT, "connection refused"),
        (HttpRefused("10.0.0.1 is private"), ErrorClass.PERMANENT, "10.0.0.1 is private"),
    ],
)
async def test_what_is_no_success_is_a_failure_with_its_class(
    answer: HttpAnswer | Exception, error_class: ErrorClass, said: str
) -> None:
    outcome = (await HttpTaskRunner(Http(answer), {}).run(invocation())).outcome

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert outcome.error.error_class is error_class
    assert said in outcome.error.message
    assert "SECRET" not in outcome.error.message


async def test_a_file_may_count_other_statuses_as_success() -> None:
    called = invocation(success=frozenset({404}))

    gone = await HttpTaskRunner(Http(HttpAnswer(status=404)), {}).run(called)
    found = await HttpTaskRunner(Http(HttpAnswer(status=200)), {}).run(called)

    assert gone.outcome.ending is Ending.SUCCEEDED
    assert found.outcome.error is not None
    assert found.outcome.error.code == "HTTP200"


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

    error = (await HttpTaskRunner(Http(answer), {}).run(invocation())).outcome.error

    assert error is not None
    assert (error.retry_after, error.retry_at) == expected


async def test_a_variable_that_is_not_set_fails_the_task_and_asks_nobody() -> None:
    http = Http(HttpAnswer(status=200))

    ran = await HttpTaskRunner(http, {}).run(invocation(headers_env={"X-Token": "TOKEN"}))

    assert ran.outcome.error is not None
    assert "environment has no TOKEN, for X-Token" in ran.outcome.error.message
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
