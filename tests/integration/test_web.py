"""The HTTP API on real ledgers, over real sockets: what it does for who asks it well."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import URL

from cronhare.application.administration.changing.schedules import ReportDesk, ScheduleEditor
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import Catalog
from cronhare.domain.schedules.task import Task, TaskPolicy, TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.ports import LedgerUnavailable
from tests.integration.web import Site

REFRESH = Task(
    name="refresh-user-token",
    ref=TaskRef("report", 25),
    command=("true",),
    policy=TaskPolicy(retry=RetryPolicy(attempts=7)),
)
TASKS = (
    REFRESH,
    Task(name="clean", ref=TaskRef("worker", 3), command=("true",)),
    Task(name="remind", ref=TaskRef("reminder", 4), command=("true",)),
    Task(name="sales_report", ref=TaskRef("report", 26), command=("true",)),
    Task(name="sales-report", ref=TaskRef("report", 27), command=("true",)),
)

#: A schedule in the columns of S1.3 in docs/compatibility.md.
SCHEDULE = {"schedule": "0 8 * * *", "report_id": 25, "params": {"a": 1}, "status": True}
#: The body of S0.8, as a person posts it.
REPORT = {"controller": "RefreshUserToken", "options_interface": {"delivery": {"instant": True}}}

ON_A_SERVER = pytest.param("mysql", marks=pytest.mark.integration)


@pytest.fixture(params=["on_sqlite", ON_A_SERVER])
def container(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Container:
    if request.param == "on_sqlite":
        return Container(settings=request.getfixturevalue("on_sqlite"), tasks=TASKS)
    request.getfixturevalue("mysql")
    found: URL = request.getfixturevalue("migrated_mysql")
    monkeypatch.setenv("CRON_DATABASE_URL", found.render_as_string(hide_password=False))
    return Container(settings=Settings.read(), tasks=TASKS)


def stored(container: Container, id_: int) -> Any:  # noqa: ANN401 - a draft
    found = container.schedules().with_id(id_)
    assert found is not None
    assert found.problem is None
    return found.draft


def test_a_schedule_is_created_in_the_columns_of_the_original(
    web: Site, container: Container
) -> None:
    said = {**SCHEDULE, "timezone": "Europe/Berlin", "description": "tokens", "user_id": 7}

    answer = web.post("/schedulers", {**said, "group_id": 3, "language_id": None})

    id_ = answer.json()["id"]
    assert (answer.status, answer.headers["location"]) == (201, f"/schedulers/{id_}")
    draft = stored(container, id_)
    assert (draft.schedule, draft.timezone, draft.task) == (
        "0 8 * * *",
        "Europe/Berlin",
        TaskRef("report", 25),
    )
    assert (draft.params, draft.status, draft.description) == ('{"a":1}', True, "tokens")
    assert (draft.user_id, draft.group_id, draft.language_id) == (7, 3, None)
    assert draft.retry == RetryPolicy(attempts=7)  # of its task: schedulers have no jobs file
    shown = web.get(f"/schedulers/{id_}")
    assert (shown.status, shown.json()) == (200, answer.json())
    assert {name: shown.json()[name] for name in said} == said


def test_all_that_is_wrong_is_told_at_once_and_nothing_is_made(
    web: Site, container: Container
) -> None:
    wrong = {"schedule": "61 * * * *", "timezone": "Mars", "report_id": 99, "user_id": "root"}

    answer = web.post("/schedulers", {**wrong, "params": {"n": 2**70}, "comand": "rm"})

    assert answer.status == 422
    assert answer.faults == {
        "params.n": "is no whole number of 64 bits, which are from -2^63 to 2^63-1",
        "comand": answer.faults["comand"],
        "user_id": '"root" is not a whole number, 0-2,147,483,647',
        "report_id": "there is no report 99; there are: refresh-user-token (25), "
        "sales_report (26), sales-report (27)",
        "timezone": 'unknown zone "Mars"',
        "schedule": "minute: 61 is outside 0-59",
    }
    assert list(container.schedules().schedules()) == []


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"report_id": 25}, "schedule"),
        ({**SCHEDULE, "date_time": "2026-12-15T16:00:00Z"}, "date_time"),
        ({"schedule": "0 8 * * *"}, "task"),
        ({**SCHEDULE, "worker_id": 3}, "worker_id"),
        ({**SCHEDULE, "report_id": 10**19}, "report_id"),
        ({**SCHEDULE, "date_time": "2026-12-15"}, "date_time"),
        ({**SCHEDULE, "name": "cronhare-cleanup"}, "name"),
        ({**SCHEDULE, "name": "nightly\n"}, "name"),
        ({**SCHEDULE, "params": "x" * 102_401}, "params"),
        ({**SCHEDULE, "description": "a\0b"}, "description"),
        ({**SCHEDULE, "schedule": "0 8 30 2 *"}, "schedule"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_with_its_field(
    web: Site, content: dict[str, Any], field: str
) -> None:
    answer = web.post("/schedulers", content)

    assert (answer.status, set(answer.faults)) == (422, {field})


def test_a_name_is_given_once(web: Site) -> None:
    assert web.post("/schedulers", {**SCHEDULE, "name": "tokens"}).status == 201

    again = web.post("/schedulers", {**SCHEDULE, "name": "tokens"})

    assert (again.status, again.json()["detail"]) == (409, "there is a schedule tokens already")


def test_a_key_makes_one_schedule_however_often_it_is_posted(
    web: Site, container: Container
) -> None:
    with ThreadPoolExecutor(8) as many:
        answers = list(many.map(lambda _: web.post("/schedulers", SCHEDULE, key="k1"), range(8)))

    assert {answer.status for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(container.schedules().schedules()) == 1
    assert web.post("/schedulers", SCHEDULE, key="k2").json()["id"] != answers[0].json()["id"]
    other = web.post("/schedulers", {**SCHEDULE, "params": {}}, key="k1")
    assert (other.status, "used before" in other.json()["detail"]) == (422, True)


def test_a_key_is_answered_what_it_made_after_that_was_edited_and_its_task_is_gone(
    web: Site, container: Container
) -> None:
    made = web.post("/schedulers", SCHEDULE, key="k")
    seen = {"If_Match": made.headers["etag"]}
    edit = {"params": {"n": 2}, "schedule": "30 6 * * *", "status": False}
    edited = web.send_json("PATCH", made.headers["location"], edit, **seen)
    assert edited.status == 200

    reordered = dict(reversed(SCHEDULE.items()))
    again = web.post("/schedulers", reordered, key="k")
    other = web.post("/schedulers", {**SCHEDULE, **edit, "status": True}, key="k")

    assert (again.status, again.json()["id"]) == (201, made.json()["id"])
    assert (again.json()["schedule"], again.headers["etag"]) == (
        "30 6 * * *",
        edited.headers["etag"],
    )
    assert (other.status, "used before" in other.json()["detail"]) == (422, True)
    container.catalog.override(Catalog([]))
    assert web.post("/schedulers", SCHEDULE, key="k").json()["id"] == made.json()["id"]
    assert web.post("/schedulers", SCHEDULE, key="k2").status == 422


def test_a_key_beside_a_name_is_refused_as_it_would_be_bound_to_nothing(
    web: Site, container: Container
) -> None:
    answers = [web.post("/schedulers", {**SCHEDULE, "name": name}, key="k") for name in "ab"]

    assert [answer.status for answer in answers] == [422, 422]
    assert "leave out one of them" in answers[0].text
    assert not container.schedules().schedules()


@pytest.mark.parametrize("controller", ["RefreshUserToken", "refresh-user-token"])
def test_a_report_is_generated_as_the_original_asks_for_it(
    web: Site, container: Container, controller: str
) -> None:
    body = {**REPORT, "controller": controller}

    answer = web.post("/reports/generate", body)

    execution = container.records().execution(answer.json()["id"])
    assert execution is not None
    assert (answer.status, answer.json()["params"]) == (202, body)
    assert (execution.task, execution.state.value) == (REFRESH.ref, "claimed")
    assert execution.key.startswith("manual-")
    assert execution.retry == RetryPolicy(attempts=7)
    again = web.post("/reports/generate", body).json()
    assert (again["id"] > execution.id, again["scheduler_id"]) == (True, execution.scheduler_id)


def test_a_key_begins_one_run(web: Site) -> None:
    with ThreadPoolExecutor(8) as many:
        answers = list(many.map(lambda _: web.post("/reports/generate", REPORT, key="k"), range(8)))

    assert {answer.status for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    other = web.post("/reports/generate", {"controller": "RefreshUserToken"}, key="k")
    assert other.status == 422


@pytest.mark.parametrize(
    ("controller", "said"),
    [
        ("refresh-user-tokens", "did you mean refresh-user-token?"),
        ("clean", "there is no report 'clean'"),
        ("SalesReport", "sales_report and sales-report: say which one"),
    ],
)
def test_what_is_not_the_name_of_one_report_is_not_found(
    web: Site, controller: str, said: str
) -> None:
    answer = web.post("/reports/generate", {"controller": controller})

    assert (answer.status, said in answer.json()["detail"]) == (404, True)


def test_a_ledger_that_is_away_is_told_with_when_to_ask_again(
    web: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def away(*_: object, **__: object) -> None:
        raise LedgerUnavailable("host secret.example is away", changed_nothing=True)

    with monkeypatch.context() as patch:
        patch.setattr(ScheduleEditor, "create", away)
        patch.setattr(ReportDesk, "generate", away)
        answer, _ = web.post("/schedulers", SCHEDULE), web.post("/reports/generate", REPORT)
    assert web.post("/schedulers", SCHEDULE).status == 201

    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert "nothing was changed" in answer.json()["detail"]
    assert "secret" not in answer.text
    actions = [str(record.__dict__.get("action")) for record in caplog.records]
    told = [action for action in actions if action.startswith("ledger.")]
    assert told == ["ledger.unavailable", "ledger.back"]
