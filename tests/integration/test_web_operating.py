"""Executions, failures, replays, runs of tasks, and what else operators look at, over HTTP."""

from typing import Any

import attrs
import pytest

from cronhare.domain.events.alerts import Alert, raised
from cronhare.domain.events.judging import alert
from cronhare.domain.events.outbox import OutboxRow, OutboxState
from cronhare.domain.events.rules import Rule
from cronhare.domain.events.targets import ByEmail, EventKind, Subscriptions, Target
from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import Archived
from cronhare.domain.retries.retry import Complete, Quarantine
from cronhare.domain.schedules.conditions import CalendarDraft
from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.ports.runner import Captured
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import (
    FAILURE,
    FOR_GOOD,
    HOUR,
    IN_30_S,
    MINUTE,
    NOON,
    SUCCESS,
    Ledger,
    sql_ledger,
)
from tests.integration.web import Site

TASK = Task(name="tokens", ref=TaskRef("report", 25), command=("true",))
TO_QUARANTINE = Quarantine("it crashed too often")


@pytest.fixture
def container(on_sqlite: Settings) -> Container:
    found = Container(settings=on_sqlite, tasks=[TASK])
    found.clock.override(FrozenClock(NOON))
    return found


@pytest.fixture
def ledger(container: Container) -> Ledger:
    clock: Any = container.clock()
    found = sql_ledger(clock, container.engine())
    found.plan_edited()
    return found


def ended(ledger: Ledger, name: str, out: str, err: str = "") -> int:
    ran = attrs.evolve(
        SUCCESS,
        stdout=Captured(head=out, bytes=len(out), lines=out.count("\n")),
        stderr=Captured(head=err, bytes=len(err), lines=err.count("\n")),
    )
    return ledger.finished(ledger.claimed(name), Complete(), ran).id


def quarantined(ledger: Ledger, name: str) -> Archived:
    return ledger.failed(name, verdict=TO_QUARANTINE)


def test_executions_are_listed_page_by_page_as_the_command_does(web: Site, ledger: Ledger) -> None:
    ids = [ended(ledger, f"s-{n}", "") for n in range(3)]
    running = ledger.running("now").id

    first = web.get("/executions?limit=2&state=succeeded&state=running")
    second = web.get(first.headers["link"].split(">")[0].strip("<"))

    assert [each["id"] for each in first.json()] == [running, ids[2]]
    assert [each["id"] for each in second.json()] == [ids[1], ids[0]]
    assert [each["id"] for each in web.get("/executions?schedule=s-1").json()] == [ids[1]]
    assert web.get("/executions?since=2026-03-02T12:02:00+00:00&until=2026-03-02T12:03Z").json()
    assert web.get("/executions?since=12:00").faults.keys() == {"since"}
    assert web.get("/executions?schedule=nobody").status == 404
    for path in ("/executions?task=tokns", "/failed?task=tokns", "/quarantine?task=tokns"):
        assert web.get(path).status == 404
        assert web.get(path).json()["detail"] == "there is no task 'tokns'; did you mean tokens?"
    unknown = ("failed?queue=cron_sheduler", "failed?type=wroker", "failed/stats?type=wroker")
    for asked in (*unknown, "alerts?schedule=nobody", "schedulers?source=nobody"):
        assert web.get(f"/{asked}").status == 404, asked
    assert web.get("/executions?task=tokens").json() == web.get("/executions").json()
    assert web.get("/failed?task=tokens").json() == []
    assert web.get("/executions?state=asleep").faults.keys() == {"state"}
    assert web.get("/failed/stats?by=foo").faults.keys() == {"by"}


def test_an_execution_has_every_attempt_and_a_tag(web: Site, ledger: Ledger) -> None:
    retrying = ledger.finished(ledger.claimed(), IN_30_S, FAILURE)
    path = f"/executions/{retrying.id}"

    shown = web.get(path)
    again = web.get(path, **{"If-None-Match": shown.headers["etag"]})
    ledger.succeeded(retrying)

    assert [each["attempt"] for each in shown.json()["attempts"]] == [1]
    assert shown.json()["execution"]["state"] == "retrying"
    assert (again.status, again.text) == (304, "")
    changed = web.get(path, **{"If-None-Match": shown.headers["etag"]})
    assert [each["ending"] for each in changed.json()["attempts"]] == ["failed", "succeeded"]
    assert web.get("/executions/99").status == 404


def test_output_is_text_that_can_be_followed(web: Site, ledger: Ledger) -> None:
    ran = attrs.evolve(FAILURE, stdout=Captured(head="one\n\x1b[31mtwo\n", bytes=20, lines=2))
    execution = ledger.finished(ledger.claimed(), IN_30_S, ran)
    path = f"/executions/{execution.id}/output"

    first = web.get(path)
    link = first.headers["link"].split(">")[0].strip("<")
    nothing = web.get(link)
    ran = attrs.evolve(SUCCESS, stdout=Captured(head="three", bytes=5, lines=0))
    ledger.finished(execution, Complete(), ran)
    rest = web.get(link)

    assert first.headers["content-type"] == "text/plain; charset=utf-8"
    assert (first.text, first.headers["execution-state"]) == ("one\n\\x1b[31mtwo\n", "retrying")
    assert (nothing.text, nothing.headers["link"]) == ("", first.headers["link"])
    assert (rest.text, "link" in rest.headers) == ("three", False)
    assert web.get(f"{path}?raw=true&tail=2").text == "\x1b[31mtwo\nthree"
    assert web.get(f"{path}?stream=stderr").text == ""
    assert web.get(f"{path}?after=x").status == 422
    assert web.get("/executions/99/output").status == 404


def test_what_waits_is_cancelled_what_runs_is_asked_to_end_and_what_has_ended_stays(
    web: Site, ledger: Ledger
) -> None:
    over, waits = ended(ledger, "over", ""), ledger.published("waits").id
    runs = ledger.running("runs").id

    answers = [web.post(f"/executions/{each}/cancel", {}) for each in (waits, runs, over)]

    assert [answer.status for answer in answers] == [200, 202, 409]
    assert answers[0].json()["execution"]["state"] == "cancelled"
    assert answers[1].json()["execution"]["cancel_requested"] is True
    assert answers[2].json()["state"] == "succeeded"
    assert web.post("/executions/99/cancel", {}).status == 404
    [entry, *_] = web.get("/audit").json()
    assert (entry["action"], entry["actor"], entry["channel"]) == (
        "execution.cancel",
        "local",
        "api",
    )


def test_a_failure_runs_again_or_is_discarded_once(web: Site, ledger: Ledger) -> None:
    one, other = ledger.failed("one"), ledger.failed("other")

    again = web.post(f"/failed/{one.id}/replay", {"attempts": 2})
    gone = web.post(f"/failed/{other.id}/discard", {"note": "known"})

    assert (again.status, again.headers["location"]) == (202, f"/executions/{one.execution_id}")
    assert (gone.status, gone.json()["failures"]) == (200, 1)
    twice = [web.post(f"/failed/{one.id}/{word}", {}) for word in ("replay", "discard")]
    assert [(each.status, each.json()["state"]) for each in twice] == [(409, "replayed")] * 2
    assert web.get("/failed").json() == []
    assert [each["id"] for each in web.get("/failed?all=true").json()] == [other.id, one.id]
    assert web.get(f"/failed/{other.id}").json()["failure"]["note"] == "known"
    assert web.post(f"/failed/{one.id}/replay", {"attempts": 99}).faults.keys() == {"attempts"}
    assert web.post("/failed/99/replay", {}).status == 404


def test_many_failures_are_replayed_or_discarded_by_what_they_have_in_common(
    web: Site, ledger: Ledger
) -> None:
    ids = [ledger.failed(name).id for name in ("a", "b")]

    looked = web.post("/failed/replay", {"all": True, "dry_run": True})
    begun = web.post("/failed/replay", {"schedule": "a", "rate": 1, "key": "queue"}, key="k")
    again = web.post("/failed/replay", {"schedule": "a", "rate": 1, "key": "queue"}, key="k")

    assert (looked.status, looked.json()) == (200, {"failures": 2, "replay": None})
    id_ = begun.json()["replay"]["id"]
    assert (begun.status, begun.headers["location"]) == (202, f"/replays/{id_}")
    assert again.json()["replay"]["id"] == id_
    stopped, resumed = (web.post(f"/replays/{id_}/{verb}", {}) for verb in ("cancel", "resume"))
    assert (stopped.json()["reason"], resumed.json()["state"]) == ("stopped by local", "active")
    assert web.post("/failed/replay", {"schedule": "b"}, key="k").status == 422
    nothing = web.post("/failed/replay", {"reason": "of nobody"}, key="other")
    assert (nothing.status, nothing.json()) == (200, {"failures": 0, "replay": None})
    assert len(web.get("/replays").json()) == 1
    assert web.post("/failed/replay", {}).faults.keys() == {"all"}
    assert web.post("/failed/replay", {"all": True, "stop_at": 7}).faults.keys() == {"stop_at"}
    assert web.post("/failed/replay", {"schedule": "nobody"}).status == 404
    assert web.post("/failed/discard", {"schedule": "b", "note": "n"}).json()["failures"] == 1
    assert [each["id"] for each in web.get("/failed").json()] == [ids[0]]


def test_the_quarantine_is_released_and_discarded(web: Site, ledger: Ledger) -> None:
    failed, *pills = ledger.failed("f"), *(quarantined(ledger, f"q-{n}") for n in range(3))

    listed = web.get("/quarantine").json()
    released = web.post(f"/quarantine/{pills[0].id}/release", {})
    other = web.post(f"/quarantine/{failed.id}/release", {})
    rest = web.post("/quarantine/discard", {"schedule": "q-1"})

    assert [each["id"] for each in listed["quarantined"]] == [each.id for each in reversed(pills)]
    assert (released.status, other.status, rest.json()["failures"]) == (202, 404, 1)
    assert web.post("/quarantine/discard", {"all": True, "kind": "failed"}).status == 422
    assert web.post("/quarantine/release", {"all": True}).json()["failures"] == 1
    seen = ledger.records.execution(pills[0].execution_id or 0)
    assert seen is not None
    assert seen.state is State.CLAIMED


def test_counts_are_by_group(web: Site, ledger: Ledger) -> None:
    ledger.failed("a", verdict=FOR_GOOD)
    ended(ledger, "b", "")

    failures = web.get("/failed/stats?by=schedule&by=reason")
    executions = web.get("/executions/stats?by=schedule&since=2026-03-01T00:00:00Z")

    assert [each["schedule_name"] for each in failures.json()] == ["a"]
    assert {each["schedule_name"]: each["total"] for each in executions.json()} == {"a": 1, "b": 1}
    assert web.get("/executions/stats?by=reason").faults.keys() == {"by"}


def test_what_works_waits_and_holds_retries_is_listed(web: Site, ledger: Ledger) -> None:
    ledger.published("waits")

    assert [each["waiting"] for each in web.get("/queues").json()] == [1]
    assert web.get("/nodes").json()["nodes"] == []
    assert (web.get("/budgets").json(), web.get("/breakers").json()) == ([], [])
    assert web.post("/breakers/report%2025/reset", {}).status == 404
    assert web.post("/nodes/nobody/drain", {}).status == 404


def test_calendars_are_shown_and_an_instant_explains_itself(web: Site, ledger: Ledger) -> None:
    calendar = CalendarDraft(name="off", timezone="UTC", windows=(("2026-12-25", "Christmas"),))
    ledger.schedules.save([], source="jobs.toml", now=ledger.now, calendars=[calendar])
    ran = ended(ledger, "ran", "")

    shown = web.get("/calendars/off").json()
    why = web.get(f"/explain?execution={ran}").json()

    assert shown["windows"] == [{"during": "2026-12-25", "label": "Christmas"}]
    assert web.get("/calendars").json() == [shown]
    assert web.get("/calendars/on").status == 404
    assert (why["schedule_name"], why["ran"]) == ("ran", True)
    assert web.get("/explain?schedule=ran&at=2026-03-02T12:01:00Z").json()["ran"] is True
    for wrong in ("", "?at=2026-03-02T12:01:00Z", f"?schedule=ran&execution={ran}"):
        assert web.get(f"/explain{wrong}").faults.keys() == {"schedule"}


MAIL = ByEmail(to=("ops@example.org",))
SUBSCRIPTIONS = Subscriptions(
    source="jobs.toml",
    targets={
        "ops": Target(name="ops", means=MAIL, events=frozenset({EventKind.ALERT})),
        "slow": Target(name="slow", means=MAIL, events=frozenset({EventKind.ALERT})),
        "bad-ends": Target(name="bad-ends", means=MAIL),
        "queues": Target(
            name="queues",
            means=MAIL,
            events=frozenset({EventKind.ALERT}),
            alerts=frozenset({Rule.QUEUE}),
        ),
    },
)
FAILING = alert(Rule.FAILED, "", now=NOON, value=6, threshold=5)


def hold(ledger: Ledger, *held: Alert, source: str | None = None) -> list[Alert]:
    """Let these hold from now on, beside what holds of other sources."""
    ledger.clock.advance(MINUTE)
    ledger.alerts.begin(now=ledger.now, every=MINUTE, source=source)
    return [*ledger.alerts.keep(held, now=ledger.now, ended_at=ledger.now, source=source).raised]


def tell(ledger: Ledger, one: Alert, target: str, error: str | None = None) -> None:
    """Tell a target of an alert, or try so in vain."""
    event = raised(one, source="jobs.toml")
    ledger.events.add(
        [OutboxRow.of(event, target, source="jobs.toml", now=ledger.now)], now=ledger.now
    )
    [row] = ledger.events.take(
        target, source="jobs.toml", now=ledger.now, lease=MINUTE, node="ant", limit=1
    )
    state = OutboxState.DELIVERED if error is None else OutboxState.GIVEN_UP
    assert ledger.events.settle(row, state, now=ledger.now, error=error)


def test_alerts_say_what_is_wrong_who_was_told_and_why_others_were_not(
    web: Site, ledger: Ledger, container: Container
) -> None:
    unjudged = web.get("/alerts")
    assert (unjudged.json(), "judged-at" in unjudged.headers) == ([], False)
    assert unjudged.headers["unjudged"].startswith("Nobody has judged the ledger so far: ")
    container.subscribers().current = SUBSCRIPTIONS
    [one] = hold(ledger, FAILING)
    tell(ledger, one, "ops")
    tell(ledger, one, "slow", error="it answered 503")

    judged = web.get("/alerts")
    [shown] = judged.json()

    assert (judged.headers["judged-at"], "unjudged" in judged.headers) == (
        "2026-03-02T12:01:00Z",
        False,
    )
    parts = ("rule", "severity", "title", "value", "threshold", "raised_at")
    assert [shown[part] for part in parts] == [
        "failed", "high", "Failures wait for somebody", 6, 5, "2026-03-02T12:01:00Z",
    ]  # fmt: skip
    assert shown["runbook"] == "docs/operators.md: What failed, and of which schedule?"
    assert {each["target"]: (each["state"], each["why"]) for each in shown["told"]} == {
        "ops": ("delivered", None),
        "slow": ("given-up", "given up, tried 1 time: it answered 503"),
    }
    assert {each["target"]: each["why"] for each in shown["untold"]} == {
        "bad-ends": "its events have no alert",
        "queues": "its alerts leave out failed",
    }
    assert web.get("/alerts?severity=critical&rule=queue").json() == []


DRAFT = ScheduleDraft(name="shop:send", task=TaskRef("worker", 1_000_000_007), task_name="send")


@pytest.fixture
def shop(container: Container) -> Ledger:
    found = sql_ledger(FrozenClock(NOON), container.engine())
    found.schedules.save([DRAFT], source="shop", now=NOON)
    return found


def test_a_task_is_run_by_its_name_once_for_each_key(web: Site, shop: Ledger) -> None:
    asked = {"params": {"order": 7}, "key": "mail:7", "delay": "1h", "queue": "mails"}

    answer, again = (web.post("/tasks/shop:send/runs", asked) for _ in range(2))
    other = web.post("/tasks/shop:send/runs", {"key": "mail:7", "params": {"order": 8}})

    assert answer.status == 202
    [run] = shop.executions()
    assert answer.headers["location"] == f"/executions/{run.id}"
    assert answer.json()["trigger"] == "program"
    assert (run.key, run.params, run.queue) == ("task-mail:7", '{"order":7}', "mails")
    assert (run.state, run.due_at) == (State.CLAIMED, NOON + HOUR)
    assert (again.status, again.json()["id"]) == (202, run.id)
    assert other.status == 409
    assert "'mail:7' of shop:send is that of execution" in other.json()["detail"]
    by_header = [web.post("/tasks/shop:send/runs", {}, key="again").json() for _ in range(2)]
    assert by_header[0]["id"] == by_header[1]["id"] != run.id


@pytest.mark.usefixtures("shop")
def test_all_faults_of_a_run_are_told_at_once(web: Site) -> None:
    assert web.post("/tasks/shop:other/runs", {}).status == 404
    asked = {"key": " 7", "delay": "1h", "at": "2026-03-02T13:00:00Z", "queue": "amq.x"}

    assert web.post("/tasks/shop:send/runs", asked).faults.keys() == {"key", "at", "queue"}
