"""Schedules over HTTP: looked through, edited, switched, run, and filled."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.ports.records import AuditFilter
from tests.integration.web import Answer, Site

TASKS = (
    Task(name="tokens", ref=TaskRef("report", 25), command=("true",), source="jobs.toml"),
    Task(name="clean", ref=TaskRef("worker", 3), command=("true",), source="jobs.toml"),
)
DAILY = {"schedule": "30 2 * * *", "timezone": "Europe/Berlin", "report_id": 25}


@pytest.fixture
def container(on_sqlite: Settings) -> Container:
    return Container(settings=on_sqlite, tasks=TASKS)


def create(web: Site, name: str = "tokens", **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    made = web.post("/schedulers", {**DAILY, "name": name, **changes})
    assert made.status == 201, made.text
    return {**made.json(), "etag": made.headers["etag"]}


def edit(web: Site, made: dict[str, Any], **changes: Any) -> Answer:  # noqa: ANN401
    return web.send_json("PATCH", f"/schedulers/{made['id']}", changes, If_Match=made["etag"])


def of_file(container: Container, name: str = "nightly") -> int:
    draft = ScheduleDraft(
        name=name, task=TaskRef("report", 25), task_name="tokens", schedule="0 3 * * *"
    )
    now = container.claims().now()
    container.schedules().save([draft], source="jobs.toml", now=now)
    [stored] = container.schedules().schedules([name])
    return stored.id


def test_pages_are_linked_and_keep_what_was_asked_for(web: Site) -> None:
    ids = [create(web, f"s-{n}", status=n != 1)["id"] for n in range(4)]

    first = web.get("/schedulers?search=S-&enabled=true&limit=2")
    [link, relation] = first.headers["link"].split("; ")
    second = web.get(link.strip("<>"))

    assert [each["id"] for each in first.json()] == [ids[0], ids[2]]
    assert relation == 'rel="next"'
    assert [each["id"] for each in second.json()] == [ids[3]]
    assert "link" not in second.headers
    assert web.get("/schedulers?paused=true").json() == []
    wrong = web.get("/schedulers?enable=true&limit=0&limit=2&after=x")
    assert (wrong.status, {"enable", "limit"} <= set(wrong.faults)) == (422, True)


def test_what_a_jobs_file_says_of_a_schedule_may_be_said_here(web: Site) -> None:
    made = create(
        web,
        schedule=None,
        report_id=None,
        task="clean",
        every="90s",
        retry={"attempts": 3},
        misfire={"policy": "all", "window": "5m", "cap": 6},
        overlap="skip",
        concurrency={"key": "db", "limit": 2},
        timeout="5m",
        ends_at="2030-01-01T00:00:00Z",
        max_runs=7,
        pause_after=4,
        expires="1h",
        jitter="8s",
        blackout=["22:00-06:00"],
        queue="cron_scheduler.slow",
    )

    shown = web.get(f"/schedulers/{made['id']}").json()
    assert (shown["worker_id"], shown["every_seconds"], shown["retry"]["attempts"]) == (3, 90, 3)
    assert shown["retry_facts"] == "3 runs, waits 30 s, 1 min, 1 min 30 s in all"
    misfire = ("misfire_policy", "misfire_window_seconds", "misfire_cap", "overlap_policy")
    assert [shown[each] for each in misfire] == ["all", 300, 6, "skip"]
    seconds = ("timeout_seconds", "expires_seconds", "jitter_seconds")
    assert [shown[each] for each in seconds] == [300, 3_600, 8]
    assert (shown["concurrency_key"], shown["concurrency_limit"]) == ("db", 2)
    assert [shown[each] for each in ("max_runs", "runs_claimed", "pause_after")] == [7, 0, 4]
    by_day = create(web, "by-day", gap="skip", fold="both")
    assert (by_day["gap_policy"], by_day["fold_policy"]) == ("skip", "both")
    assert (shown["queue"], shown["blackout"]) == ("cron_scheduler.slow", ["22:00-06:00"])
    wrong = web.post("/schedulers", {**DAILY, "skip_on": ["holidays"], "task": "clean"})
    assert set(wrong.faults) == {"report_id"}
    wrong = web.post("/schedulers", {**DAILY, "skip_on": ["holidays"]})
    assert wrong.faults == {"skip_on": "there is no calendar holidays; there are none"}


def test_an_edit_changes_what_it_says_and_nothing_else(web: Site) -> None:
    made = create(web, user_id=7, description="d", timeout="5m", max_runs=3, expires="1h")

    answer = edit(web, made, schedule="0 5 * * *", user_id=None, max_runs=None, params={"a": 1})

    changed = {name: value for name, value in answer.json().items() if made.get(name) != value}
    assert (answer.status, changed.pop("updated_at") > made["updated_at"]) == (200, True)
    assert changed.pop("runs_claimed", None) is None
    assert changed == {"schedule": "0 5 * * *", "user_id": None, "max_runs": None} | {
        "params": {"a": 1}
    }
    assert answer.json()["expires_seconds"] == 3_600
    at = "2030-06-01T12:00:00"
    once = edit(web, tagged(answer), schedule=None, date_time=at, worker_id=3, timezone=None)
    assert (once.json()["date_time"], once.json()["worker_id"]) == (f"{at}Z", 3)
    assert (once.json()["report_id"], once.json()["timezone"]) == (None, "UTC")


def tagged(answer: Answer) -> dict[str, Any]:
    return {**answer.json(), "etag": answer.headers["etag"]}


def test_all_that_is_wrong_with_an_edit_is_told_and_nothing_changes(web: Site) -> None:
    made = create(web)

    answer = edit(web, made, name="other", schedule="61 * * * *", timezone="Mars", comand=1)

    assert answer.status == 422
    assert set(answer.faults) == {"name", "schedule", "timezone", "comand"}
    assert edit(web, made, schedule=None).faults == {
        "schedule": "is missing; give schedule, date_time, every or stay_alive"
    }
    assert web.get(f"/schedulers/{made['id']}").headers["etag"] == made["etag"]


def test_a_stale_edit_is_told_both_versions(web: Site) -> None:
    made = create(web)
    mine = edit(web, made, description="mine")

    answer = edit(web, made, description="yours")

    problem = answer.json()
    assert (answer.status, problem["yours"]["etag"]) == (412, made["etag"])
    assert problem["yours"]["changes"] == {"description": "yours"}
    assert problem["current"]["etag"] == mine.headers["etag"]
    assert problem["current"]["scheduler"]["description"] == "mine"
    gone = web.ask("DELETE", f"/schedulers/{made['id']}", headers={"If-Match": made["etag"]})
    assert gone.status == 412
    whatever = edit(web, {**made, "etag": "*"}, description="whatever")
    assert (whatever.status, whatever.json()["description"]) == (200, "whatever")


@pytest.mark.parametrize(
    ("tag", "status"), [(None, 428), ("16", 400), ('"x"', 412), ('W/"1"', 412), ("*, *", 400)]
)
def test_an_edit_says_which_version_it_is_of(web: Site, tag: str | None, status: int) -> None:
    made = create(web)
    headers = {} if tag is None else {"If_Match": tag}

    for method in ("PATCH", "DELETE"):
        answer = web.send_json(method, f"/schedulers/{made['id']}", {}, **headers)
        assert (answer.status, answer.json()["status"]) == (status, status)


def test_a_schedule_of_a_file_is_edited_with_a_notice_and_not_deleted(
    web: Site, container: Container
) -> None:
    id_ = of_file(container)

    answer = web.send_json("PATCH", f"/schedulers/{id_}", {"status": False}, If_Match="*")
    gone = web.ask("DELETE", f"/schedulers/{id_}", headers={"If-Match": "*"})

    assert (answer.json()["status"], "jobs.toml has the last word" in answer.text) == (False, True)
    assert (gone.status, "is of jobs.toml" in gone.json()["detail"]) == (409, True)
    other = web.send_json("PATCH", f"/schedulers/{id_}", {"task": "clean"}, If_Match="*")
    assert (other.json()["task_name"], other.json()["worker_id"]) == ("clean", 3)


def test_what_has_run_is_deleted_with_its_history_once_all_of_it_has_ended(web: Site) -> None:
    ran = create(web, "ran")
    begun = web.post(f"/schedulers/{ran['id']}/run", {}).json()
    path, headers = "/schedulers/by-name/ran?with_history=true", {"If-Match": "*"}

    waits = web.ask("DELETE", path, headers=headers)
    unsaid = web.ask("DELETE", path.replace("true", ""), headers=headers)
    assert (unsaid.status, unsaid.faults) == (422, {"with_history": '"" is not true or false'})
    assert web.post(f"/executions/{begun['id']}/cancel", {}).status in {200, 202}
    gone = web.ask("DELETE", path, headers=headers)

    assert (waits.status, "1 execution that may still run" in waits.json()["detail"]) == (409, True)
    assert gone.status == 204
    assert web.get(f"/executions/{begun['id']}").status == 404
    [newest] = web.get("/audit?limit=1").json()
    assert (newest["action"], newest["target"], newest["outcome"]) == (
        "schedule.delete",
        "ran",
        "done",
    )


def test_put_creates_then_replaces_and_changes_nothing_the_second_time(web: Site) -> None:
    path, body = "/schedulers/by-name/customer-7", {**DAILY, "timeout": "5m", "params": {"a": 1}}

    made, again = web.send_json("PUT", path, body), web.send_json("PUT", path, body)
    other = web.send_json("PUT", path, {**DAILY, "schedule": "0 4 * * *"})

    assert (made.status, again.status, other.status) == (201, 200, 200)
    assert made.headers["etag"] == again.headers["etag"] != other.headers["etag"]
    shown = web.get(path).json()
    assert (shown["id"], shown["schedule"]) == (made.json()["id"], "0 4 * * *")
    assert (shown["timeout_seconds"], shown["params"]) == (None, {})  # what is left out is default
    assert len(web.get("/schedulers").json()) == 1


def test_put_with_an_etag_changes_only_what_was_seen(web: Site) -> None:
    path = "/schedulers/by-name/tokens"
    unmade = web.send_json("PUT", path, DAILY, If_Match="*")
    made = create(web)
    edit(web, made, timeout="5m")
    there = web.send_json("PUT", path, DAILY, If_None_Match="*")
    other = web.send_json("PUT", f"{path}-2", DAILY, If_None_Match="*")

    late = web.send_json("PUT", path, DAILY, If_Match=made["etag"])

    assert (unmade.status, late.status) == (412, 412)
    assert (there.status, other.status) == (412, 201)
    assert late.json()["current"]["scheduler"]["timeout_seconds"] == 300
    assert web.ask("DELETE", path).status == 428
    assert web.ask("DELETE", path, headers={"If-Match": made["etag"]}).status == 412
    assert web.ask("DELETE", path, headers={"If-Match": "*"}).status == 204
    assert web.get(path).status == 404


def test_put_mends_a_broken_row(web: Site, container: Container) -> None:
    made = create(web, params={"a": 1})
    with container.engine().begin() as connection:
        connection.execute(text("UPDATE Scheduler SET schedule = '61 * * * *', params = '{oops'"))

    kept = web.send_json("PATCH", f"/schedulers/{made['id']}", {"status": True}, If_Match="*")
    mended = web.send_json("PUT", "/schedulers/by-name/tokens", DAILY)

    assert (kept.status, mended.status) == (409, 200)
    assert (mended.json()["schedule"], mended.json()["params"]) == (DAILY["schedule"], {})
    assert mended.json()["problem"] is None
    edited = container.audit_store().entries(AuditFilter(target="tokens"), before=None, limit=1)[0]
    assert "61" in edited.before["problem"]
    assert edited.after["schedule"] == DAILY["schedule"]


def test_put_refuses_another_name_a_files_schedule_and_a_name_that_none_can_have(
    web: Site, container: Container
) -> None:
    of_file(container)

    other = web.send_json("PUT", "/schedulers/by-name/tokens", {**DAILY, "name": "token"})
    no_text = web.send_json("PUT", "/schedulers/by-name/tokens", {**DAILY, "name": []})
    files = web.send_json("PUT", "/schedulers/by-name/nightly", DAILY)

    assert (
        other.faults == no_text.faults == {"name": "is another one in the path; leave it out here"}
    )
    assert (files.status, "is of jobs.toml" in files.json()["detail"]) == (409, True)
    for odd in ("a/b", "Müller", "%2F", "a\0", "cronhare-x"):
        path = f"/schedulers/by-name/{quote(odd, safe='')}"
        assert web.send_json("PUT", path, DAILY).faults.keys() == {"name"}
    assert web.send_json("PUT", "/schedulers/by-name/a/run", DAILY).faults.keys() == {"name"}


def test_it_is_switched_off_and_on_and_paused_with_a_reason_and_goes_on(web: Site) -> None:
    made = create(web)
    path = f"/schedulers/{made['id']}"
    switched = [web.post(f"{path}/{verb}", {}) for verb in ("disable", "enable")]
    assert [answer.json()["status"] for answer in switched] == [False, True]
    made["etag"] = switched[-1].headers["etag"]

    paused = web.post(f"{path}/pause", {"reason": "maintenance", "until": "2035-01-01T00:00:00"})

    pause = paused.json()["pause"]
    assert (pause["on"], pause["reason"], pause["by"]) == (True, "maintenance", "local")
    assert pause["until"] == "2034-12-31T23:00:00Z"  # of the wall clock in Berlin
    assert paused.headers["etag"] == made["etag"]  # it is no edit
    assert web.post(f"{path}/resume", {}).json()["pause"]["on"] is False
    over = web.post(f"{path}/pause", {"until": "2001-01-01T00:00:00Z"})
    assert (over.status, "is over" in over.text) == (422, True)
    assert web.post(f"{path}/pause", {"until": "soon"}).faults.keys() == {"until"}
    assert web.post("/schedulers/99/pause", {}).status == 404


def test_runs_to_come_are_told_with_what_the_clock_does_to_them(web: Site) -> None:
    made = create(web, starts_at="2026-03-28T00:00:00")
    future = [
        each for each in web.get(f"/schedulers/{made['id']}/next?count=400").json() if each["clock"]
    ]

    assert len(web.get(f"/schedulers/{made['id']}/next").json()) == 10
    assert {each["clock"][0]["kind"] for each in future}
    assert web.get(f"/schedulers/{made['id']}/next?count=1001").status == 422


def test_past_instants_are_run_once_for_each_key(web: Site) -> None:
    made = create(web, timezone="UTC")
    path = f"/schedulers/{made['id']}/backfill"
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    span = {
        "since": (today - timedelta(days=3)).isoformat(),
        "until": today.replace(tzinfo=None).isoformat(),
    }

    looked = web.post(path, {**span, "dry_run": True})
    one = web.post(path, {**span, "rate": 5, "stop_at": None}, key="k")
    again = web.post(path, {**span, "rate": 5, "stop_at": None}, key="k")

    assert (looked.status, looked.json()["instants"]) == (200, 3)
    assert (one.status, one.headers["location"]) == (202, f"/replays/{one.json()['id']}")
    assert (one.json()["kind"], one.json()["author"]) == ("backfill", "local")
    assert again.json()["id"] == one.json()["id"]
    assert web.post(path, {**span, "rate": 6}, key="k").status == 422
    assert web.post(path, {**span, "rate": -1}).faults.keys() == {"rate"}
    assert web.post(path, {"until": "x"}).faults.keys() == {"since"}


EVENT: dict[str, Any] = {"schedule": None, "report_id": None, "every": "1h", "topic": "orders.due"}


def test_a_schedule_may_name_a_topic_with_a_payload(web: Site) -> None:
    made = create(web, **EVENT, payload={"shop": 7}, no_listener="fail")
    assert made["notes"][0].startswith("topic: no task of this jobs file listens to 'orders.due'")

    parts = ("topic", "no_listener", "payload", "report_id", "task_name")
    assert [made[part] for part in parts] == ["orders.due", "fail", {"shop": 7}, None, None]
    paid = edit(web, made, topic="orders.paid", description="d")
    assert (paid.json()["topic"], paid.json()["payload"]) == ("orders.paid", {"shop": 7})
    other = edit(web, tagged(paid), payload={"shop": 8})
    assert (other.json()["payload"], other.json()["no_listener"]) == ({"shop": 8}, "fail")
    task = edit(web, tagged(other), worker_id=3).json()
    assert [task[part] for part in ("topic", "no_listener", "payload")] == [None, "complete", None]
    assert (task["worker_id"], task["params"]) == (3, {"shop": 8})
    again = edit(web, {**task, "etag": "*"}, topic="orders.due")
    assert (again.json()["worker_id"], again.json()["payload"]) == (None, {"shop": 8})
