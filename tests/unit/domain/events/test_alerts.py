"""Of what people are alerted, and in which words."""

import re
from pathlib import Path
from typing import Any

import pytest

from cronhare.domain.events.alerts import Alert, raised
from cronhare.domain.events.judging import FEWEST_RUNS, GROWING, Signs, judge
from cronhare.domain.events.rules import ABOUT, AlertPolicy, Rule
from tests.unit.executions import NOON, execution


def alerts(policy: AlertPolicy | None = None, **signs: Any) -> dict[str, Alert]:  # noqa: ANN401
    return {each.rule: each for each in judge(Signs(**signs), policy or AlertPolicy(), NOON)}


@pytest.mark.parametrize(
    ("unresolved", "rules"),
    [
        (5, []),
        (6, [Rule.FAILED]),
        (10, [Rule.FAILED]),
        (11, [Rule.FAILED, Rule.GROWING]),
        (100, [Rule.FAILED, Rule.GROWING]),
        (101, [Rule.FAILED, Rule.GROWING, Rule.CRITICAL]),
    ],
)
def test_failures_alert_above_the_original_numbers(unresolved: int, rules: list[Rule]) -> None:
    assert [*alerts(unresolved=unresolved)] == rules


def test_the_alert_is_the_original_one() -> None:
    found = alerts(unresolved=11)

    assert found[Rule.FAILED].data["alert"] == {
        "severity": "high",
        "message": "11 failed cron tasks",
        "task": None,
    }
    assert found[Rule.GROWING].data["deadLetterQueue"] == {
        "severity": "warning",
        "title": GROWING,
        "message": "DLQ has 11 jobs (threshold: 10)",
        "depth": 11,
        "threshold": 10,
        "runbook": "docs/operators.md: What failed, and of which schedule?",
    }
    assert GROWING == "Dead Letter Queue Growing"
    critical = alerts(unresolved=101)[Rule.CRITICAL].data["deadLetterQueue"]
    assert critical["severity"] == "critical"


def test_a_task_that_is_retried_too_often_is_named() -> None:
    worst = execution(deaths=3)

    alert = alerts(worst=worst, too_often=2)[Rule.RETRIES]

    assert "was retried 3 times (threshold: 2), and 1 other likewise" in alert.message
    assert alert.data["alert"]["severity"] == "high"
    assert alert.data["alert"]["task"]["scheduler_id"] == worst.scheduler_id
    assert alert.data["executionId"] == worst.id
    assert (alert.key, alert.schedule, alert.told_as_of) == ("retries", worst.schedule_name, None)
    assert raised(alert, source="a").schedule == worst.schedule_name


def test_a_rate_of_retries_alerts_above_a_fifth_of_enough_runs() -> None:
    assert alerts(runs=FEWEST_RUNS - 1, retried=9) == {}
    assert alerts(runs=10, retried=2) == {}
    alert = alerts(runs=10, retried=3)[Rule.RETRY_RATE]
    assert alert.message == "3 of 10 runs were retried: 30.0% (threshold: 20.0%)"


def test_what_is_off_alerts_of_nothing() -> None:
    off = AlertPolicy(failed=0, warning=0, critical=0, retries=0, retry_rate=0)
    signs = {"unresolved": 1_000, "runs": 10, "retried": 10, "worst": execution(), "too_often": 1}

    assert alerts(off, **signs) == {}


def test_each_rule_has_a_title_and_a_runbook_that_is_there() -> None:
    assert ABOUT.keys() == {*Rule}
    for _, _, runbook in ABOUT.values():
        page, heading = runbook.split(": ")
        text = (Path(__file__).parents[4] / page).read_text()
        assert re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE), runbook
