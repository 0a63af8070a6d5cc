"""When one schedule's runs alert."""

from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cronhare.domain.events.alerts import CLEAR_AFTER, Alert
from cronhare.domain.events.judging import FEWEST_USUAL, RunSigns, ScheduleSigns, judge_schedule
from cronhare.domain.events.rules import ABOUT, AlertConditions, Deadline, Rule
from tests.unit.executions import NOON

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
UTC = ZoneInfo("UTC")
FIVE = Deadline(after=5 * MINUTE)


def run(due: datetime = NOON, **changes: Any) -> RunSigns:  # noqa: ANN401
    return RunSigns(id=7, due_at=due, **changes)


def alerts(conditions: AlertConditions, now: datetime, **signs: Any) -> list[Alert]:  # noqa: ANN401
    of = ScheduleSigns(scheduler_id=3, name="nightly", zone=UTC, **signs)
    found = [*judge_schedule(of, conditions, now, source="shop")]
    for each in found:
        assert each.data["alert"]["severity"] == ABOUT[each.rule].severity
    return found


@pytest.mark.parametrize(
    ("conditions", "off", "sign", "rule"),
    [
        (
            AlertConditions(not_started_by=FIVE),
            AlertConditions(not_started_by=Deadline()),
            "waiting",
            Rule.NOT_STARTED,
        ),
        (
            AlertConditions(not_finished_by=FIVE),
            AlertConditions(not_finished_by=Deadline()),
            "unfinished",
            Rule.NOT_FINISHED,
        ),
    ],
)
def test_a_run_alerts_that_has_not_begun_or_ended_by_its_time(
    conditions: AlertConditions, off: AlertConditions, sign: str, rule: Rule
) -> None:
    late = NOON + 5 * MINUTE + SECOND

    assert alerts(conditions, NOON + 5 * MINUTE, **{sign: run()}) == []
    [alert] = alerts(conditions, late, **{sign: run()})
    [unclaimed] = alerts(conditions, late, unclaimed=NOON)

    assert (alert.rule, alert.subject, alert.source, alert.scheduler_id) == (
        rule,
        "nightly",
        "shop",
        3,
    )
    assert (alert.data["executionId"], alert.data["alert"]["severity"]) == (7, "high")
    assert alert.message.startswith("nightly, due at 2026-")
    assert unclaimed.message.endswith("has not, nor claimed by a scheduler")
    assert alert.key == unclaimed.key
    assert alerts(off, late, **{sign: run()}) == []


@pytest.mark.parametrize(
    ("due", "by"),
    [
        (datetime(2026, 3, 28, 22, 0, tzinfo=UTC), datetime(2026, 3, 29, 4, 30, tzinfo=UTC)),
        (datetime(2026, 3, 29, 4, 29, tzinfo=UTC), datetime(2026, 3, 29, 4, 30, tzinfo=UTC)),
        (datetime(2026, 3, 29, 4, 30, tzinfo=UTC), datetime(2026, 3, 30, 4, 30, tzinfo=UTC)),
    ],
)
def test_a_time_of_day_is_the_next_one_on_the_schedules_clock(due: datetime, by: datetime) -> None:
    deadline = Deadline(time_of_day=time(6, 30))

    assert deadline.of(due, ZoneInfo("Europe/Berlin")) == by  # summer begins that night


def test_a_run_alerts_that_takes_much_longer_than_usual() -> None:
    conditions = AlertConditions(longer_than_usual=3)
    usual = [MINUTE] * FEWEST_USUAL
    begun = run(started_at=NOON)
    late = NOON + 3 * MINUTE + SECOND
    over = run(started_at=NOON, finished_at=late)

    assert alerts(conditions, NOON + 3 * MINUTE, running=begun, usual=usual) == []
    [alert] = alerts(conditions, late, running=begun, usual=usual)
    assert alert.message == "nightly runs for 3m1s, and its last 5 runs took 1m at the median"
    assert (alert.data["value"], alert.data["threshold"]) == (181, 180)
    assert alerts(conditions, late, running=begun, usual=usual[1:]) == []
    assert len(alerts(conditions, late + CLEAR_AFTER, last=over, usual=usual)) == 1
    assert alerts(conditions, late + CLEAR_AFTER + SECOND, last=over, usual=usual) == []
    blink = run(started_at=NOON)
    assert alerts(conditions, NOON + 9 * SECOND, running=blink, usual=[SECOND / 10] * 5) == []


def test_a_good_run_alerts_that_wrote_too_little() -> None:
    conditions = AlertConditions(least_output=100)
    last: dict[str, Any] = {"started_at": NOON, "finished_at": NOON, "has_succeeded": True}

    [alert] = alerts(conditions, NOON, last=run(**last, output=99))
    assert alert.message == "nightly wrote 99 bytes, and is to write 100 at least"
    assert alerts(conditions, NOON, last=run(**last, output=100)) == []
    assert alerts(conditions, NOON, last=run(**last, output=None)) == []
    assert alerts(conditions, NOON, last=run(**{**last, "has_succeeded": False}, output=0)) == []


def test_what_is_said_nearer_goes_before_also_that_it_is_off() -> None:
    far = AlertConditions(not_started_by=FIVE, longer_than_usual=3, least_output=9)
    near = AlertConditions(not_started_by=Deadline(), longer_than_usual=0.0)

    both = near.over(far)

    assert both == AlertConditions(not_started_by=Deadline(), longer_than_usual=0.0, least_output=9)
    assert not both.is_empty
    assert near.is_empty
