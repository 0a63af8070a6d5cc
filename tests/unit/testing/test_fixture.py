"""What a test sees of an app by the fixture `cronhare`: time passes by calls alone."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest
import sqlalchemy as sa

from cronhare import App, Context, PermanentError, Retry, Snooze, at, cron, every
from cronhare.adapters.jobs.reader import JobsFileInvalid
from cronhare.application.administration.reading.lookup import NotFound
from cronhare.testing import Cronhare
from cronhare.testing.plugin import find_app

MORNING = "2026-11-26T07:00"  # a Thursday
LATER = "2026-11-26T07:01"


@pytest.fixture
def app() -> App:
    return App("shop")


def test_what_is_due_runs_in_order_and_at_its_time(cronhare: Cronhare, app: App) -> None:
    seen = []

    @app.task
    def note(ctx: Context, what: str) -> None:
        seen.append((f"{ctx.due_at:%H:%M}", what, ctx.schedule))

    app.schedule("hourly", note.bind("h"), cron("0 * * * *"))
    app.schedule("lunch", note.bind("l"), cron("30 12 * * *", tz="Europe/Berlin"))
    cronhare.start("2026-11-26T11:10", tz="Europe/Berlin", app=app)

    cronhare.advance("2h")

    assert seen == [("11:00", "h", "hourly"), ("11:30", "l", "lunch"), ("12:00", "h", "hourly")]
    assert f"{cronhare.now:%H:%M %Z}" == "13:10 CET"


def test_two_missed_mornings_make_one_run(cronhare: Cronhare, app: App) -> None:
    @app.task(retry=Retry(4, first="30s"))
    def refresh(ctx: Context) -> int:
        return ctx.missed

    app.schedule("refresh", refresh.bind(), cron("0 8 * * 1-5", tz="Europe/Berlin"))
    cronhare.start(MORNING, tz="Europe/Berlin", app=app)
    cronhare.fail(refresh, times=2)
    cronhare.down("26h")
    cronhare.advance("1h")

    run = cronhare.runs("refresh").one()

    assert (run.missed, run.attempts, run.result) == (2, 3, 2)


def test_it_fails_with_the_error_that_the_test_gives(cronhare: Cronhare, app: App) -> None:
    @app.task(retry=Retry(3, first="1s"))
    def ask(n: int) -> None: ...

    cronhare.start(MORNING, app=app)
    for n, error in enumerate([PermanentError("refused"), ValueError, None]):
        cronhare.fail(ask, times=9, error=error)
        ask.bind(n).enqueue()
        cronhare.advance("1h")

    ends = [(run.state, run.attempts, run.error) for run in cronhare.runs()]
    refused, other, without = ends
    assert refused == ("failed", 1, "refused")
    assert other == ("failed", 3, "ValueError")
    assert without == ("failed", 3, "the test has it fail")


def test_a_snooze_costs_no_attempt(cronhare: Cronhare, app: App) -> None:
    answers = [Snooze("10m"), Snooze("2h"), None]

    @app.task(retry=Retry(1))
    async def send() -> Snooze | None:
        await asyncio.sleep(0)
        return answers.pop(0)

    app.schedule("send", send.bind(), at(LATER))
    cronhare.start(MORNING, app=app)

    cronhare.advance("2h")
    assert len(answers) == 1
    cronhare.advance("1h")
    assert not answers
    run = cronhare.runs("send").one()
    assert (run.state, run.attempts) == ("succeeded", 1)


async def test_a_test_may_be_a_coroutine(cronhare: Cronhare, app: App) -> None:
    @app.task
    async def send(order: int) -> int:
        return order

    app.schedule("send", send.bind(7), at(LATER))
    cronhare.start(MORNING, app=app)
    cronhare.advance("1m")

    assert cronhare.runs().one().result == 7
    assert await (await send.bind(8).aenqueue()).aresult() == 8


def test_an_app_that_cannot_be_applied_is_told_with_every_fault(
    cronhare: Cronhare, app: App
) -> None:
    @app.task(timeout="soon")
    def sweep() -> None: ...

    app.schedule("sweep", sweep.bind(), cron("0 0 30 2 *"))

    with pytest.raises(JobsFileInvalid) as found:
        cronhare.start(MORNING, app=app)

    assert "tasks.sweep: timeout:" in str(found.value)
    assert "schedules.sweep: schedule:" in str(found.value)


def test_a_wrong_question_is_answered_with_what_there_is(cronhare: Cronhare, app: App) -> None:
    @app.task
    def sweep() -> None: ...

    app.schedule("sweep", sweep.bind(), every("1m"))
    cronhare.start("2026-11-26T07:00:30", app=app)

    with pytest.raises(RuntimeError, match="comes first in a test, and once"):
        cronhare.start(app=app)
    with pytest.raises(NotFound, match="there is no schedule 'swee'; did you mean sweep"):
        cronhare.runs("swee")
    with pytest.raises(AssertionError, match="one run is expected, there are 0"):
        cronhare.runs("sweep").one()
    cronhare.advance("2m")
    with pytest.raises(AssertionError, match=r"there are 2\n  Run\(id="):
        cronhare.runs("sweep").one()


def test_what_is_enqueued_waits_until_time_passes(cronhare: Cronhare, app: App) -> None:
    @app.task
    def send(order: int) -> int:
        return order

    @app.task(queue="slow")
    def sweep() -> None: ...

    cronhare.start(MORNING, app=app)
    send.bind(order=7).enqueue(key="mail:7")
    send.bind(order=7).enqueue(key="mail:7")
    send.bind(order=8).enqueue(delay="3d")
    sweep.bind().enqueue()
    app.remote("elsewhere").bind(order=9).enqueue()

    assert [run.params for run in cronhare.enqueued(send)] == [{"order": 7}, {"order": 8}]
    cronhare.run_enqueued()
    assert [run.state for run in cronhare.runs("shop:sweep")] == ["succeeded"]
    assert cronhare.enqueued("elsewhere").one().params == {"order": 9}
    cronhare.advance("71h59m59s")
    assert [run.params for run in cronhare.enqueued()] == [{"order": 8}]
    cronhare.advance("1s")
    assert [run.result for run in cronhare.runs("shop:send")] == [7, 8]


def test_to_wait_for_a_result_lets_time_pass_without_jitter(cronhare: Cronhare, app: App) -> None:
    @app.task(retry=Retry(3, first="1h", jitter="full"))
    def ask() -> str:
        return "answer"

    cronhare.start(MORNING, app=app)
    cronhare.fail(ask)

    assert ask.bind().enqueue().result() == "answer"
    assert f"{cronhare.now:%H:%M:%S}" == "08:00:00"


def test_who_waits_for_a_result_waits_no_longer_than_the_timeout(
    cronhare: Cronhare, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    def ask() -> Snooze:
        return Snooze("30s")

    monkeypatch.setattr("cronhare.testing.system._MOST_TURNS", 9)
    cronhare.start(MORNING, app=app)
    run = ask.bind().enqueue()

    with pytest.raises(TimeoutError, match="run 1 has not ended within 45 s"):
        run.result(timeout=45)
    assert f"{cronhare.now:%H:%M:%S}" == "07:00:45"
    with pytest.raises(RuntimeError, match="run 1 does not end: attempt 10 is next"):
        run.result()


def test_a_task_that_waits_for_another_is_told_that_nobody_runs_it(
    cronhare: Cronhare, app: App
) -> None:
    @app.task
    def inner() -> None: ...

    @app.task(retry=Retry(1))
    def outer() -> None:
        inner.bind().enqueue().wait()

    cronhare.start(MORNING, app=app)
    outer.bind().enqueue()
    cronhare.run_enqueued()

    error = cronhare.runs("shop:outer").one().error
    assert error is not None
    assert "a task waits for others to run: only the test can let time pass" in error


def test_a_transaction_of_the_application_has_no_part_in_what_code_puts_and_enqueues(
    cronhare: Cronhare, app: App
) -> None:
    @app.task
    def send(order: int) -> int:
        return order

    cronhare.start(MORNING, app=app)
    with sa.create_engine("sqlite://").connect() as connection:
        send.bind(6).enqueue(on=connection)
        app.schedules.put("later", send.bind(7), at("2026-11-26T09:30"), on=connection)
    cronhare.advance("3h")

    runs = [(run.schedule, run.task, run.result) for run in cronhare.runs()]
    assert runs == [("shop:send", "send", 6), ("later", "send", 7)]


def test_without_a_start_it_begins_now(cronhare: Cronhare, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("shop")

    @app.task
    def send() -> None: ...

    monkeypatch.setattr(cronhare, "_find_app", lambda: app)
    send.bind().enqueue()

    assert cronhare.enqueued(send).one().state == "claimed"
    assert abs(cronhare.now - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_app_that_is_not_the_only_one_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    config = cast("pytest.Config", SimpleNamespace(getini=lambda _: ""))
    apps = {only := App("shop")}
    monkeypatch.setattr("cronhare.entrypoints.python.app.APPS", apps)

    assert find_app(config) is only
    apps.add(App("mail"))
    with pytest.raises(pytest.UsageError, match="there are several apps: mail, shop; say which"):
        find_app(config)
    apps.clear()
    with pytest.raises(pytest.UsageError, match="no app has been imported; say which one is meant"):
        find_app(config)
