"""Schedules that are late: nobody looks at them, or those who look cannot have them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronhare.application.doctor.finding import Finding, Seen
from cronhare.application.doctor.nodes import NODES
from cronhare.ports.inspection import (
    Activity,
    DatabaseFacts,
    InMemory,
    LastClaim,
    Late,
    LedgerFacts,
    Severity,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TICK = Late("tick", NOON - 61 * SECOND)
TOCK = Late("tock", NOON - 60 * SECOND)
HOUR = Late("hour", NOON - 90 * SECOND)


def seen(activity: Activity, **fields: Any) -> Seen:  # noqa: ANN401 - of `Seen`
    sqlite = DatabaseFacts(product="SQLite", version="3.40.1")
    return Seen(ledger=LedgerFacts(database=sqlite, schema="0001", activity=activity), **fields)


def told(
    overdue: list[Late] | None = None, unplanned: list[Late] | None = None, last: int | None = None
) -> list[Finding]:
    """Judge what is late, with a claim so many seconds before now."""
    claim = None if last is None else LastClaim(NOON - last * SECOND, "vm-7")
    due = min((late.since for late in overdue or []), default=NOON)
    activity = Activity(
        now=NOON, next_due=due, overdue=overdue or (), unplanned=unplanned or (), last_claim=claim
    )
    return [each for each in NODES.judge(seen(activity)) if each.severity is not Severity.OK]


@pytest.mark.parametrize("last", [None, 62])
def test_where_nothing_was_claimed_since_no_scheduler_looks(last: int | None) -> None:
    [finding] = told([TICK, TOCK], last=last)

    assert finding.severity is Severity.ERROR
    assert finding.what == (
        "tick was due at 2026-03-01 11:58:59Z and is not claimed, nor is anything claimed since "
        "then: no scheduler looks, or another session holds all that is due"
    )
    assert "start `cronhare scheduler`" in finding.cure
    assert "`schedule.held`" in finding.cure


@pytest.mark.parametrize("last", [61, 0])
def test_where_others_are_claimed_meanwhile_its_rows_are_held_or_refused(last: int) -> None:
    [finding] = told([TICK, TOCK], last=last)

    assert finding.severity is Severity.ERROR
    assert finding.what.startswith(
        "tick was due at 2026-03-01 11:58:59Z and is not claimed, though schedulers claim others "
        "(the last vm-7 at 2026-03-01 "
    )
    assert "no scheduler looks" not in finding.what
    assert "`schedule.held`" in finding.cure


def test_a_scheduler_that_has_ended_since_is_not_at_work() -> None:
    """It passed over the one, and has not looked at the other."""
    [finding] = told([HOUR, TICK], last=70)

    assert finding.what.startswith("tick was due")
    assert "no scheduler looks" in finding.what


def test_what_is_late_for_no_more_than_a_minute_is_no_fault() -> None:
    assert told([TOCK], [TOCK]) == []


def test_what_nobody_plans_is_told_likewise() -> None:
    [unseen], [held] = told([], [TICK]), told([], [TICK], last=1)

    assert unseen.what.startswith("tick was written at 2026-03-01 11:58:59Z and is not planned")
    assert "no scheduler looks" in unseen.what
    assert "held by another session" in held.what


def test_that_no_scheduler_looks_is_told_once() -> None:
    [finding] = told([TICK], [TICK])

    assert "is not claimed" in finding.what


def test_what_was_just_written_and_nobody_is_there_to_plan_is_noted_until_it_is_late() -> None:
    fresh = [Late("tick", NOON - SECOND), Late("tock", NOON)]

    unplanned = Activity(now=NOON, unplanned=fresh)

    [finding] = NODES.judge(seen(unplanned, broker=InMemory(), jobs="a.toml"))

    assert finding.severity is Severity.NOTE
    assert finding.what == (
        "No scheduler has planned 2 schedules yet, and no node reports itself: nobody knows when "
        "anything is due"
    )
    assert finding.cure == "start `cronhare up --jobs a.toml`: without one nobody runs them"
