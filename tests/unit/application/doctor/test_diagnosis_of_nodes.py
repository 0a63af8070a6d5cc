"""What the reports of the nodes show: who is missing, silent, off, or of another version."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronhare.application.doctor.finding import Finding, Seen
from cronhare.application.doctor.nodes import NODES, older_files
from cronhare.domain.nodes import PRESUMED_DEAD_AFTER, NodeReport
from cronhare.domain.schedules.catalog import FileVersion
from cronhare.ports.inspection import (
    Activity,
    Cause,
    DatabaseFacts,
    InMemory,
    LastClaim,
    Late,
    LedgerFacts,
    Owner,
    ScheduleFacts,
    Severity,
    Unreachable,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LONG_AGO = NOON - timedelta(days=1)
ANT, BEE = "ant-7-0a1b2c3d4e5f6071", "bee-9-0a1b2c3d4e5f6072"


def node(name: str = ANT, role: str = "worker", **fields: Any) -> NodeReport:  # noqa: ANN401 - its fields
    known = {"host": name.partition("-")[0], "version": "1.4.0", "seen_at": NOON}
    return NodeReport(name=name, role=role, started_at=NOON, **{**known, **fields})


def seen(activity: Activity, **fields: Any) -> Seen:  # noqa: ANN401 - of `Seen`
    schedules = [ScheduleFacts(name=name, task=None, queue=name) for name in ("mails", "reports")]
    facts = LedgerFacts(
        database=DatabaseFacts(product="SQLite", version="3.40.1"),
        schema="0001",
        activity=activity,
        schedules=schedules if "broker" in fields else None,
    )
    return Seen(ledger=facts, **fields)


def judge_activity(activity: Activity) -> list[Finding]:
    return [*NODES.judge(seen(activity))]


def told(*nodes: NodeReport, **facts: Any) -> list[tuple[Severity, str]]:  # noqa: ANN401 - of an Activity
    """Judge the nodes, and leave out what is as it should be."""
    activity = Activity(now=NOON, nodes=nodes, **facts)
    return shown(judge_activity(activity))


def shown(findings: list[Finding]) -> list[tuple[Severity, str]]:
    return [(each.severity, each.what) for each in findings if each.severity is not Severity.OK]


def test_a_node_at_work_is_listed_with_what_it_runs() -> None:
    scheduler, worker = node(ANT, "scheduler"), node(BEE, running=2, concurrency=8)

    findings = judge_activity(Activity(now=NOON, nodes=[scheduler, worker]))

    assert [(each.severity, each.what) for each in findings] == [
        (Severity.OK, f"{ANT} (scheduler 1.4.0) last seen at 2026-03-01 12:00:00Z"),
        (Severity.OK, f"{BEE} (worker 1.4.0) runs 2 tasks, last seen at 2026-03-01 12:00:00Z"),
    ]


def test_an_owner_that_reports_itself_has_not_vanished() -> None:
    owner = Owner(name=BEE, running=1, lease_until=NOON - timedelta(minutes=2))

    [(severity, what)] = told(node(BEE, "up"), owners=[owner])

    assert severity is Severity.ERROR
    assert what.startswith(f"{BEE} does not renew the lease of 1 task: ")


@pytest.mark.parametrize("role", ["scheduler", "up"])
def test_where_a_scheduler_reports_itself_none_is_missed(role: str) -> None:
    assert told(node(role=role, seen_at=NOON - PRESUMED_DEAD_AFTER)) == []


def test_where_only_workers_report_themselves_no_scheduler_is_there() -> None:
    assert told(node()) == [
        (Severity.WARNING, "No scheduler reports itself: what falls due is not claimed")
    ]


def test_a_silent_node_is_told_and_is_no_scheduler_any_more() -> None:
    seen_at = NOON - PRESUMED_DEAD_AFTER - SECOND

    missing, silent = told(node(role="up", seen_at=seen_at))

    assert missing[0] is Severity.WARNING
    since = "2026-03-01 11:59:14Z: it was killed, or is cut off from the database"
    assert silent == (Severity.NOTE, f"{ANT} (up) is silent since {since}")


def test_of_a_ledger_where_nobody_has_reported_yet_nothing_is_said() -> None:
    owner = Owner(name="ant-7", running=1, lease_until=NOON + SECOND)

    assert unserved(owners=[owner]) == []
    assert told(owners=[owner]) == []


def test_what_is_late_is_held_back_from_a_scheduler_that_reports_itself() -> None:
    late = [Late("tick", NOON - timedelta(minutes=2))]

    [(severity, looked)] = told(node(role="scheduler"), overdue=late)
    (_, unlooked), *_ = told(node(), overdue=late)

    assert severity is Severity.ERROR
    held = "another session holds all that is due"
    assert looked.endswith(f": {ANT} is there: {held}, or it is refused")
    assert unlooked.endswith(f": no scheduler reports itself, or {held}")


def test_hosts_whose_clocks_are_off_are_named_once_each() -> None:
    off, on = timedelta(seconds=-3.2), SECOND
    nodes = [
        node(ANT, "up", clock_offset=off),
        node("ant-8", clock_offset=off),
        node(BEE, clock_offset=on),
        node("cat-3", clock_offset=off, seen_at=NOON - timedelta(minutes=5)),
    ]

    [(severity, what)] = [each for each in told(*nodes) if "silent" not in each[1]]

    assert severity is Severity.WARNING
    assert what.startswith("Hosts are off the ledger's clock: ant by -3.200 s. ")


def test_different_versions_at_work_are_a_note() -> None:
    nodes = [node(ANT, "up"), node(BEE, version="1.3.0")]

    assert told(*nodes) == [
        (Severity.NOTE, f"Different versions are at work: 1.3.0 ({BEE}); 1.4.0 ({ANT})")
    ]
    assert told(nodes[0], node(BEE)) == []


def unserved(*nodes: NodeReport, **facts: Any) -> list[str]:  # noqa: ANN401 - of an Activity
    away = Unreachable(Cause.ABSENT, "nobody answers")
    found = NODES.judge(seen(Activity(now=NOON, nodes=nodes, **facts), broker=away))
    return [each.what for each in found if each.what.startswith("No worker reports")]


def test_a_queue_that_no_worker_serves_is_named() -> None:
    scheduler = node(ANT, "scheduler", queues=("mails", "reports"))
    silent = node("cat-3", queues=("mails",), seen_at=NOON - timedelta(minutes=5))

    assert unserved(scheduler, silent, node(BEE, queues=("reports",))) == [
        "No worker reports that it serves mails"
    ]
    assert unserved(scheduler, node(BEE, "up", queues=("reports", "mails"))) == []


def test_a_cronhare_up_that_runs_is_given_the_queue_and_not_started_once_more() -> None:
    at_work = seen(Activity(now=NOON, nodes=[node(role="up")]), broker=InMemory())

    [cure] = [each.cure for each in NODES.judge(at_work) if each.severity is Severity.WARNING]

    ends = "to its jobs file, and start `cronhare up` anew"
    assert cure == f"add a schedule on that queue {ends}"


def test_workers_with_another_version_of_the_file_are_named_with_what_to_do() -> None:
    same, older = FileVersion("jobs.toml", "new"), FileVersion("jobs.toml", "old")
    nodes = [
        node(ANT, source="jobs.toml", digest="old"),
        node(BEE, source="jobs.toml", digest="new"),
        node("cat-1-0a1b2c3d4e5f6073", source="user.toml", digest="old"),
        node("dog-1-0a1b2c3d4e5f6074"),
        node("eel-1-0a1b2c3d4e5f6075", source="jobs.toml", digest="old", seen_at=LONG_AGO),
    ]

    [told] = older_files(nodes, same, now=NOON)

    assert told.what == f"{ANT}: with another version of jobs.toml than this one"
    assert "systemctl reload, or kill -HUP 7 on ant; under nohup restart it)" in told.cure
    assert [each.what.partition(":")[0] for each in older_files(nodes, older, now=NOON)] == [BEE]


def test_of_a_worker_with_a_file_and_an_app_each_is_compared() -> None:
    node_with_both = node(ANT, source="jobs.toml, shop", digest="one, two")

    def named(file: FileVersion) -> list[str]:
        return [each.what for each in older_files([node_with_both], file, now=NOON)]

    assert named(FileVersion("jobs.toml", "one")) == named(FileVersion("shop", "two")) == []
    assert named(FileVersion("shop", "one")) == [
        f"{ANT}: with another version of shop than this one"
    ]
    assert named(FileVersion("user.toml", "one")) == []


# Schedules that are late: nobody looks at them, or those who look cannot have them

TICK = Late("tick", NOON - 61 * SECOND)
TOCK = Late("tock", NOON - 60 * SECOND)
HOUR = Late("hour", NOON - 90 * SECOND)


def late(
    overdue: list[Late] | None = None, unplanned: list[Late] | None = None, last: int | None = None
) -> list[Finding]:
    """Judge what is late, with a claim so many seconds before now."""
    claim = None if last is None else LastClaim(NOON - last * SECOND, "vm-7")
    due = min((late.since for late in overdue or []), default=NOON)
    activity = Activity(
        now=NOON, next_due=due, overdue=overdue or (), unplanned=unplanned or (), last_claim=claim
    )
    return [each for each in judge_activity(activity) if each.severity is not Severity.OK]


@pytest.mark.parametrize("last", [None, 62])
def test_where_nothing_was_claimed_since_no_scheduler_looks(last: int | None) -> None:
    [finding] = late([TICK, TOCK], last=last)

    assert finding.severity is Severity.ERROR
    assert finding.what == (
        "tick was due at 2026-03-01 11:58:59Z and is not claimed, nor is anything claimed since "
        "then: no scheduler looks, or another session holds all that is due"
    )
    assert "start `cronhare scheduler`" in finding.cure
    assert "`schedule.held`" in finding.cure


@pytest.mark.parametrize("last", [61, 0])
def test_where_others_are_claimed_meanwhile_its_rows_are_held_or_refused(last: int) -> None:
    [finding] = late([TICK, TOCK], last=last)

    assert finding.severity is Severity.ERROR
    assert finding.what.startswith(
        "tick was due at 2026-03-01 11:58:59Z and is not claimed, though schedulers claim others "
        "(the last vm-7 at 2026-03-01 "
    )
    assert "no scheduler looks" not in finding.what
    assert "`schedule.held`" in finding.cure


def test_a_scheduler_that_has_ended_since_is_not_at_work() -> None:
    """It passed over the one, and has not looked at the other."""
    [finding] = late([HOUR, TICK], last=70)

    assert finding.what.startswith("tick was due")
    assert "no scheduler looks" in finding.what


def test_what_is_late_for_no_more_than_a_minute_is_no_fault() -> None:
    assert late([TOCK], [TOCK]) == []


def test_what_nobody_plans_is_told_likewise() -> None:
    [unseen], [held] = late([], [TICK]), late([], [TICK], last=1)

    assert unseen.what.startswith("tick was written at 2026-03-01 11:58:59Z and is not planned")
    assert "no scheduler looks" in unseen.what
    assert "held by another session" in held.what


def test_that_no_scheduler_looks_is_told_once() -> None:
    [finding] = late([TICK], [TICK])

    assert "is not claimed" in finding.what


def test_what_was_just_written_and_nobody_is_there_to_plan_is_noted_until_it_is_late() -> None:
    fresh = [Late("tick", NOON - SECOND), Late("tock", NOON)]

    unplanned = Activity(now=NOON, unplanned=fresh)

    [finding] = NODES.judge(seen(unplanned, broker=InMemory(), jobs="--jobs a.toml"))

    assert finding.severity is Severity.NOTE
    assert finding.what == (
        "No scheduler has planned 2 schedules yet, and no node reports itself: nobody knows when "
        "anything is due"
    )
    assert finding.cure == "start `cronhare up --jobs a.toml`: without one nobody runs them"
