"""What a program in Python sees: runs that it enqueues, their results, schedules that it makes."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL, create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from cronhare import (
    App,
    CannotEdit,
    Context,
    EditedMeanwhile,
    Handle,
    Invalid,
    LedgerUnavailable,
    NotFound,
    RunFailed,
    aenqueue_many,
    at,
    enqueue_many,
    every,
)
from cronhare.adapters.jobs.reader import read_content
from cronhare.application.administration.jobs_file.difference import Change
from cronhare.domain.execution import Execution, State
from cronhare.domain.nodes import NodeReport
from cronhare.domain.retries.outcome import Ending, Outcome
from cronhare.domain.retries.retry import Complete, Verdict
from cronhare.entrypoints.python.client import Client, client_of, close_clients
from cronhare.entrypoints.settings.settings import Settings
from cronhare.ports.attempts import Finish, StartRequest
from cronhare.ports.runner import AttemptResult, TaskReport
from tests.integration.amqp import channel
from tests.ports import NO_NACKS
from tests.services.finding import wait_until

LEASE = timedelta(seconds=30)


@dataclass
class Refreshed:
    tokens: int


@pytest.fixture
def app(on_sqlite: Settings) -> Iterator[App]:  # noqa: ARG001 - it sets CRON_DATABASE_URL
    yield App("shop")
    close_clients()


@dataclass
class Shop:
    """An app with two tasks."""

    app: App

    def __post_init__(self) -> None:
        @self.app.task(retry="emails")
        def refresh(ctx: Context, region: str, limit: int = 10) -> Refreshed:
            """Refresh them."""
            assert ctx.attempt
            return Refreshed(len(region) * limit)

        @self.app.task(name="mail.send", aliases=["old.mailer"], queue="mails")
        def send(order: int) -> None:
            """Send it."""

        self.refresh, self.send = refresh, send

    @property
    def client(self) -> Client:
        return client_of(self.app)

    def run(self, handle: Handle[Any]) -> Execution:
        found = self.client.container.records().execution(handle.id)
        assert found is not None
        return found

    def end(self, handle: Handle[Any], verdict: Verdict, ran: AttemptResult) -> None:
        """Run it as a worker does."""
        container = self.client.container
        now = container.clock().now()
        asked = [StartRequest(execution_id=handle.id, attempt=1, nacks=NO_NACKS)]
        [run] = container.attempts().start(asked, now=now, node="ant", lease=LEASE)
        assert isinstance(run, Execution)
        finish = Finish(execution=run, ran=ran, verdict=verdict)
        container.attempts().finish([finish], now=now, node="ant")


@pytest.fixture
def shop(app: App) -> Shop:
    return Shop(app)


SUCCESS = Outcome(ending=Ending.SUCCEEDED, exit_code=0)


def succeeded(result: object) -> AttemptResult:
    return AttemptResult(
        outcome=SUCCESS,
        report=TaskReport(result=msgspec.json.encode(result).decode()),
    )


def test_a_run_is_as_its_task_and_its_call_say(shop: Shop) -> None:
    run = shop.run(shop.send.bind(order=7).enqueue(key="mail:7"))

    assert (run.schedule_name, run.source, run.task_name) == ("shop:mail.send", "shop", "mail.send")
    assert (run.key, run.params, run.queue) == ("task-mail:7", '{"order":7}', "mails")
    call = shop.refresh.bind("eu").options(key="eu", queue="slow")
    calls = [shop.send.bind(order=8), call.options(queue="fast", delay="5m")]
    first, last = map(shop.run, enqueue_many(calls))
    assert first.id < last.id
    assert (last.key, last.queue, last.params) == ("task-eu", "fast", '{"region":"eu"}')
    assert last.due_at - last.executed_at == timedelta(minutes=5)
    assert last.retry is not None


def test_a_result_is_what_the_function_returns_or_why_it_is_not_there(shop: Shop) -> None:
    handle = shop.refresh.bind("eu").enqueue()
    with pytest.raises(TimeoutError, match=r"has not ended within 0\.01 s"):
        handle.result(timeout=0.01)

    shop.end(handle, Complete(), succeeded({"tokens": 20}))

    assert handle.wait(timeout=5) is State.SUCCEEDED
    assert handle.result(timeout=5) == Refreshed(20)
    unkept = shop.refresh.bind("eu").enqueue()
    why = "what it returned is not kept: 70000 bytes of JSON, 65536 are allowed"
    report = TaskReport(result_problem=why)
    shop.end(unkept, Complete(), AttemptResult(outcome=SUCCESS, report=report))
    with pytest.raises(NotFound, match="is succeeded, and its result is not there: what it ret"):
        unkept.result()


def test_what_waits_is_cancelled_and_explained(shop: Shop) -> None:
    handle = shop.send.bind(order=7).enqueue(delay=3_600)
    assert "its time has not come yet" in handle.explain()
    assert "before it was due." in handle.explain()
    assert "Its task is mail.send of shop" in handle.explain()

    assert handle.cancel() is State.CANCELLED
    with pytest.raises(RunFailed, match="is cancelled"):
        handle.result(timeout=5)


def test_an_event_loop_has_twins_of_all(shop: Shop) -> None:
    async def order() -> Refreshed:
        [handle, other] = await aenqueue_many([shop.refresh.bind("eu"), shop.refresh.bind("us")])
        assert await handle.astate() is State.CLAIMED
        assert await other.acancel() is State.CANCELLED
        end = asyncio.to_thread(shop.end, handle, Complete(), succeeded({"tokens": 2}))
        result, _ = await asyncio.gather(handle.aresult(timeout=5), end)
        return result

    assert asyncio.run(order()) == Refreshed(2)


def test_a_handle_is_none_of_the_run_that_got_its_id_after_a_rollback(
    shop: Shop, tmp_path: Path
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/ledger.db")
    with Session(engine) as session:
        gone = shop.send.bind(order=7).enqueue(key="order-7", on=session)
        session.rollback()
    engine.dispose()
    others = shop.refresh.bind("eu").enqueue(key="order-7")
    assert others.id == gone.id

    for ask in (gone.state, gone.result, gone.explain, gone.cancel):
        with pytest.raises(NotFound, match="rolled back"):
            ask()
    assert others.state() is State.CLAIMED


def test_a_run_is_found_again_by_its_id_or_its_key(shop: Shop) -> None:
    handle = shop.refresh.bind("eu").enqueue(key="eu")
    shop.end(handle, Complete(), succeeded({"tokens": 20}))

    assert shop.app.run(handle.id).result() == Refreshed(20)
    assert shop.refresh.run("eu").result() == Refreshed(20)
    by_name = App("shop").remote("refresh").run("eu")
    assert (by_name.id, by_name.key, by_name.result()) == (handle.id, "eu", {"tokens": 20})
    with pytest.raises(NotFound, match="shop:refresh has no run with the key 'us'"):
        shop.refresh.run("us")
    with pytest.raises(NotFound, match=r"shop:mail\.send has no run with the key 'eu'"):
        shop.send.run("eu")
    shop.app.schedules.put("probe", shop.refresh.bind("us"))
    probing = shop.client.container.administrator().run_now(
        "probe", params=None, actor=shop.client.actor
    )
    assert shop.app.run(probing.id).state() is State.CLAIMED
    for other, run in ((shop.app, probing.id + 1), (App("blog"), handle.id)):
        with pytest.raises(NotFound, match=f"app {other.name} has no run {run}"):
            other.run(run)


@pytest.mark.integration
def test_an_asynchronous_session_is_used_in_its_event_loop(
    shop: Shop, migrated_postgresql: URL
) -> None:
    shop.app.ledger = migrated_postgresql.render_as_string(hide_password=False)

    async def order() -> Handle[None]:
        engine = create_async_engine(migrated_postgresql)
        async with engine.begin() as connection:
            handle = await shop.send.bind(order=7).aenqueue(on=connection)
        await engine.dispose()
        return handle

    assert asyncio.run(order()).state() is State.CLAIMED


def test_a_task_is_enqueued_without_its_code(shop: Shop) -> None:
    shop.send.bind(order=1).enqueue()

    @dataclass
    class Params:
        order: int

    remote = App("shop").remote("mail.send", Params)
    assert shop.run(remote.bind(Params(7)).enqueue()).params == '{"order":7}'
    assert shop.run(remote.bind(order=8).enqueue()).params == '{"order":8}'
    with pytest.raises(TypeError, match=r"mail.send: order: expected `int`, got `str`"):
        remote.bind(order="seven")


def test_a_lifespan_fails_early(app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{tmp_path}/nowhere.db")

    async def begin() -> None:
        async with app.lifespan(object()):
            raise AssertionError("it begins")

    with pytest.raises(LedgerUnavailable, match="there is no ledger at"):
        asyncio.run(begin())


def test_a_forked_child_has_a_client_of_its_own(shop: Shop) -> None:
    shop.send.bind(order=1).enqueue()
    client = shop.client

    if not (child := os.fork()):
        os._exit(shop.client is not client and shop.send.bind(order=2).enqueue().id == 2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert shop.client is client
    assert shop.send.bind(order=3).enqueue().id == 3


def test_what_is_enqueued_first_is_what_apply_would_make(shop: Shop) -> None:
    enqueue_many([shop.send.bind(order=7), shop.refresh.bind("eu")])

    file = read_content(
        shop.app.tables("shop:app"),
        "shop:app",
        folder=Path.cwd(),
        policy=shop.client.container.settings().policy,
    )

    changes = shop.client.container.applier().compare(file)
    assert {change.name: change.change for change in changes} == {
        "shop:mail.send": Change.KEEP,
        "shop:refresh": Change.KEEP,
    }


@pytest.mark.integration
def test_messages_are_sent_at_once_over_one_connection(
    shop: Shop, vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRON_BROKER_URL", vhost)
    container = shop.client.container
    container.broker().declare(["mails"])
    container.broker().close()
    now = container.clock().now()
    at_work = NodeReport(
        name="bee",
        role="worker",
        host="hive",
        version="1",
        started_at=now,
        seen_at=now,
        queues=("mails",),
        consumed_at=now,
    )
    container.nodes().report(at_work, kept_for=timedelta(hours=1))
    with channel(vhost) as plain:

        def depth() -> int:
            return int(plain.queue_declare("mails", passive=True).method.message_count)

        shop.send.bind(order=1).enqueue()
        wait_until(lambda: depth() == 1, seconds=10, what="a message")
        connected = container.lasting_bell()._broker
        enqueue_many([shop.send.bind(order=order) for order in range(200)])
        wait_until(lambda: depth() == 201, seconds=10, what="200 messages")
        assert container.lasting_bell()._broker is connected

        with Session(container.engine()) as session:
            shop.send.bind(order=1).enqueue(on=session)
            assert depth() == 201
            session.commit()
        wait_until(lambda: depth() == 202, seconds=10, what="what was committed")
        shop.send.bind(order=1).enqueue()
        close_clients()  # as at the end of a program
        wait_until(lambda: depth() == 203, seconds=10, what="the last")


# Schedules that code makes


def test_a_schedule_is_put_once_and_what_an_operator_has_paused_or_disabled_stays_so(
    shop: Shop,
) -> None:
    schedules = shop.app.schedules
    for _ in range(2):
        schedules.put("probe", shop.refresh.bind("us"), every("30s", jitter="5s"))
        [first] = schedules.list()
    assert (first.every_seconds, first.params, first.source) == (30.0, {"region": "us"}, None)
    assert first.updated_at == first.created_at

    schedules.pause("probe", reason="too loud")
    shop.client.container.schedules().switch(
        ["probe"], on=False, now=shop.client.container.clock().now()
    )

    schedules.put("probe", shop.refresh.bind("us"), every("1m"))

    seen = schedules.get("probe")
    assert (seen.every_seconds, seen.status) == (60.0, False)
    assert seen.pause is not None
    assert seen.pause.on
    schedules.resume("probe")
    schedules.put("probe", shop.refresh.bind("us"), every("1m"), status=True)
    assert schedules.get("probe").status


def test_only_what_was_seen_is_changed_if_that_is_asked_for(shop: Shop) -> None:
    schedules = shop.app.schedules
    schedules.put("probe", shop.refresh.bind("us"), every("30s"))
    seen = schedules.get("probe")
    schedules.put("probe", shop.refresh.bind("us"), every("1m"), if_match=seen)

    with pytest.raises(EditedMeanwhile):
        schedules.put("probe", shop.refresh.bind("us"), every("2m"), if_match=seen)
    with pytest.raises(EditedMeanwhile):
        schedules.put("other", shop.refresh.bind("us"), every("2m"), if_match=seen)
    with pytest.raises(EditedMeanwhile):
        schedules.delete("probe", if_match=seen)
    schedules.delete("probe")
    with pytest.raises(NotFound):
        schedules.get("probe")


def test_a_schedule_is_there_with_the_callers_commit(shop: Shop, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/ledger.db")
    call = shop.send.bind(order=7)
    with engine.connect() as connection:
        shop.app.schedules.put("remind-7", call, at("2030-01-01T08:00:00Z"), on=connection)
        connection.rollback()
        shop.app.schedules.put("remind-8", call, at("2030-01-01T08:00:00Z"), on=connection)
        connection.commit()
        shop.app.schedules.put("remind-8", call, at("2031-01-01T08:00:00Z"), on=connection)
        connection.commit()
    engine.dispose()

    [seen] = shop.app.schedules.list()
    assert (seen.name, seen.queue) == ("remind-8", "mails")
    assert seen.date_time is not None
    assert seen.date_time.year == 2031


def test_a_name_of_a_file_is_left_to_it(shop: Shop) -> None:
    container = shop.client.container
    drafts = shop.client.drafts(shop.app, {"nightly": {"task": "refresh", "every": "30s"}})
    container.schedules().save(drafts, source="shop", now=container.clock().now())

    with pytest.raises(CannotEdit, match="nightly is of shop"):
        shop.app.schedules.put("nightly", shop.refresh.bind("us"), every("30s"))


def test_all_faults_of_a_schedule_are_told_at_once(shop: Shop) -> None:
    with pytest.raises(Invalid, match=r"queue: .*every: 1ms is no interval"):
        shop.app.schedules.put("probe", shop.refresh.bind("us"), every("1ms"), queue="No Queue")
    with pytest.raises(Invalid, match="notify: only"):
        shop.app.schedules.put("probe", shop.refresh.bind("us"), every("30s"), notify=["ops"])
