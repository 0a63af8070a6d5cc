"""Runs of tasks, enqueued over HTTP."""

from collections.abc import Iterator

import pytest

from cronhare.domain.execution import State
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import HOUR, NOON, Ledger, sql_ledger
from tests.integration.web import Site, site

DRAFT = ScheduleDraft(name="shop:send", task=TaskRef("worker", 1_000_000_007), task_name="send")


@pytest.fixture
def container(on_sqlite: Settings) -> Container:
    found = Container(settings=on_sqlite)
    found.clock.override(FrozenClock(NOON))
    return found


@pytest.fixture
def ledger(container: Container) -> Ledger:
    found = sql_ledger(FrozenClock(NOON), container.engine())
    found.schedules.save([DRAFT], source="shop", now=NOON)
    return found


@pytest.fixture
def web(container: Container, ledger: Ledger) -> Iterator[Site]:  # noqa: ARG001 - it has the task
    with site(container) as found:
        yield found


def test_a_task_is_run_by_its_name(web: Site, ledger: Ledger) -> None:
    asked = {"params": {"order": 7}, "key": "mail:7", "delay": "1h", "queue": "mails"}

    answer = web.post("/tasks/shop:send/runs", asked)

    assert answer.status == 202
    [run] = ledger.executions()
    assert answer.headers["location"] == f"/executions/{run.id}"
    assert answer.json()["trigger"] == "program"
    assert (run.key, run.params, run.queue) == ("task-mail:7", '{"order":7}', "mails")
    assert (run.state, run.due_at) == (State.CLAIMED, NOON + HOUR)


def test_a_task_that_the_ledger_does_not_know_is_told(web: Site) -> None:
    assert web.post("/tasks/shop:other/runs", {}).status == 404


def test_one_key_is_one_run(web: Site, ledger: Ledger) -> None:
    first = web.post("/tasks/shop:send/runs", {"key": "mail:7", "params": {"order": 7}})

    again = web.post("/tasks/shop:send/runs", {"key": "mail:7", "params": {"order": 7}})
    other = web.post("/tasks/shop:send/runs", {"key": "mail:7", "params": {"order": 8}})

    assert (again.status, again.json()["id"]) == (202, first.json()["id"])
    assert other.status == 409
    assert "'mail:7' of shop:send is that of execution" in other.json()["detail"]
    assert len(ledger.executions()) == 1


def test_all_faults_are_told_at_once(web: Site) -> None:
    asked = {"key": " 7", "delay": "1h", "at": "2026-03-02T13:00:00Z", "queue": "amq.x"}

    assert web.post("/tasks/shop:send/runs", asked).faults.keys() == {"key", "at", "queue"}


def test_an_idempotency_key_is_as_good(web: Site, ledger: Ledger) -> None:
    answers = [web.post("/tasks/shop:send/runs", {}, key="again") for _ in range(2)]

    assert {answer.status for answer in answers} == {202}
    assert len(ledger.executions()) == 1
