"""The alert rules: each fault is played to them, and the alert of that fault fires and clears."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from prometheus_client import generate_latest

from cronhare.adapters.prometheus.catalogue import CATALOGUE
from cronhare.adapters.prometheus.metrics import PrometheusMetrics
from cronhare.domain.execution import State
from cronhare.domain.retries.outcome import Ending
from cronhare.entrypoints.probes import make_registry
from cronhare.entrypoints.vitals import Vitals
from tests.services.promtool import promtool
from tests.unit.executions import NOON, execution

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/cronhare.rules.yml"
DASHBOARD = ROOT / "deploy/grafana/cronhare.json"

#: Names of series in an expression.
_NAMES = re.compile(r"\b(?:cronhare|job_queue|app_schedule)_[a-z_]+\b")


@cache
def rules() -> Mapping[str, Mapping[str, Any]]:
    whole = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return {rule["alert"]: rule for group in whole["groups"] for rule in group["rules"]}


@cache
def queries() -> Sequence[str]:
    """Give the expressions of the dashboard, with a value for each of its variables."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [
        target["expr"].replace("$__rate_interval", "5m")
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]


@attrs.frozen
class Fault:
    """Series that are well, then ill, then well again; an hour of them, a value each minute.

    It *fires* at this minute and has cleared by *clear*; *others* fire with it.
    """

    series: Mapping[str, str]
    fires: int = 20
    clear: int = 59
    others: tuple[str, ...] = ()


def gauge(well: float, ill: float) -> str:
    """Ill from minute 10 to minute 30."""
    return f"{well}x9 {ill}x20 {well}x40"


def counter(each_minute: float) -> str:
    """Count from minute 10 to minute 25."""
    return f"0x9 0+{each_minute}x15 {each_minute * 15}x40"


HISTOGRAM = {
    'cronhare_lateness_seconds_bucket{stage="started",le="1.0"}': "0x70",
    'cronhare_lateness_seconds_bucket{stage="started",le="300.0"}': counter(5),
    'cronhare_lateness_seconds_bucket{stage="started",le="+Inf"}': counter(5),
}

EACH = "cronhare_executions_total"

FAULTS: Mapping[str, Fault] = {
    "CronhareNoSchedulerTick": Fault(
        {'cronhare_last_tick_timestamp_seconds{instance="s"}': "0+60x9 540x20 1800+60x40"}
    ),
    "CronhareQueueWithoutWorker": Fault(
        {
            'cronhare_executions_unfinished{queue="mails",state="published"}': "5x70",
            'cronhare_queue_workers{queue="mails"}': gauge(1, 0),
        }
    ),
    "CronhareOldestWaiting": Fault(
        {'cronhare_oldest_waiting_seconds{queue="mails"}': gauge(3, 700)}
    ),
    "CronhareLate": Fault(HISTOGRAM),
    "CronhareFailures": Fault({f'{EACH}{{state="failed"}}': counter(0.5)}, fires=25),
    "CronhareManyFailures": Fault(
        {f'{EACH}{{state="failed"}}': counter(2)}, others=("CronhareFailures",)
    ),
    "CronhareRetryRate": Fault(
        {f'{EACH}{{state="retrying"}}': counter(2), f'{EACH}{{state="succeeded"}}': counter(3)},
        fires=25,
    ),
    "CronhareDeadLetters": Fault({"job_queue_dlq_depth": gauge(0, 11)}),
    "CronhareManyDeadLetters": Fault(
        {"job_queue_dlq_depth": gauge(10, 101)}, others=("CronhareDeadLetters",)
    ),
    "CronharePoisonPill": Fault({'cronhare_failures_unresolved{state="quarantined"}': gauge(0, 1)}),
    "CronhareNodeSilent": Fault({'cronhare_nodes{role="worker",state="silent"}': gauge(0, 1)}),
    "CronhareLedgerAway": Fault({'cronhare_connection_up{connection="ledger"}': gauge(1, 0)}),
    "CronhareBrokerAway": Fault({'cronhare_connection_up{connection="consumer"}': gauge(1, 0)}),
    "CronhareMessagesUnsent": Fault(
        {'cronhare_messages_published_total{outcome="unknown"}': counter(3)}
    ),
    "CronhareClockOffset": Fault({"cronhare_clock_offset_seconds": gauge(0, -7)}),
    "CronhareLeasesLost": Fault({"cronhare_leases_lost_total": counter(1)}),
    "CronhareRetryBudgetExhausted": Fault(
        {'cronhare_retry_budget_remaining{queue="mails"}': gauge(90, 0)}
    ),
    "CronhareBreakerOpen": Fault({'cronhare_breaker_open{task="report"}': gauge(0, 1)}),
    "CronhareScheduleNotSucceeded": Fault(
        {
            'cronhare_schedule_last_failure_timestamp_seconds{schedule="a"}': gauge(0, 600)[:-6]
            + " 600x40",
            'cronhare_schedule_last_success_timestamp_seconds{schedule="a"}': "300x29 1800x40",
        }
    ),
    "CronhareEventsUnheard": Fault(
        {'app_schedule_job_no_listener_total{topic="user.created"}': counter(1)}
    ),
    "CronhareLedgerNotCounted": Fault(
        {"cronhare_ledger_measured_timestamp_seconds": "0+60x9 540x20 1800+60x40"}
    ),
}

#: A system in which all is well.
WELL = {
    "cronhare_last_tick_timestamp_seconds": "0+60x70",
    "cronhare_ledger_measured_timestamp_seconds": "0+60x70",
}


def played(alert: str, fault: Fault) -> dict[str, Any]:
    names = {series.partition("{")[0] for series in fault.series}
    well = {name: values for name, values in WELL.items() if name not in names}
    firing = dict.fromkeys((alert, *fault.others), 1)
    return {
        "name": alert,
        "interval": "1m",
        "input_series": [
            {"series": name, "values": values} for name, values in {**well, **fault.series}.items()
        ],
        "promql_expr_test": [
            _firing(fault.fires, firing),
            _firing(5, {}),
            _firing(fault.clear, {}),
        ],
    }


def _firing(minute: int, alerts: Mapping[str, int]) -> dict[str, Any]:
    return {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{minute}m",
        "exp_samples": [
            {"labels": f'{{alertname="{name}"}}', "value": count} for name, count in alerts.items()
        ],
    }


def test_each_fault_raises_its_alert_and_that_clears(tmp_path: Path) -> None:
    """Each at once: to begin promtool takes longer than all of them."""
    tests = [played(alert, fault) for alert, fault in FAULTS.items()]
    absent = played("CronhareNoSchedulerTick", Fault({}, clear=5))
    absent["input_series"] = [{"series": "up", "values": "1x70"}]
    absent["promql_expr_test"] = [
        _firing(20, {"CronhareNoSchedulerTick": 1, "CronhareLedgerNotCounted": 1})
    ]
    test = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [*tests, absent]}
    (tmp_path / "faults.yml").write_text(yaml.safe_dump(test))

    status, said = promtool("test", "rules", tmp_path / "faults.yml")

    assert status == 0, said


def test_each_alert_has_its_fault() -> None:
    assert FAULTS.keys() == rules().keys()


def test_each_alert_says_what_is_the_matter_and_where_to_read_on() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    status, said = promtool("check", "rules", RULES)
    assert status == 0, said
    for name, rule in rules().items():
        notes = rule["annotations"]
        assert notes.keys() == {"summary", "description", "runbook_url"}, name
        assert rule["labels"]["severity"] in {"warning", "critical"}, name
        assert notes["runbook_url"] == f"docs/metrics.md#{name.lower()}"
        assert f'<a id="{name.lower()}"></a>' in page, name


def _exported() -> set[str]:
    return {series for one in CATALOGUE for series in one.series}


def _labels_of(expression: str) -> Iterator[tuple[str, str]]:
    for name, labels in re.findall(r"([a-z_]+)\{([^}]*)\}", expression):
        for label in re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", labels):
            yield name, label


@pytest.mark.parametrize("where", ["rules", "dashboard"])
def test_names_and_labels_are_those_that_are_exported(where: str) -> None:
    expressions = [rule["expr"] for rule in rules().values()] if where == "rules" else queries()
    labels = {series: {*one.labels, "le", "instance"} for one in CATALOGUE for series in one.series}

    named = {name for expression in expressions for name in _NAMES.findall(expression)}
    assert named - _exported() == set()
    assert len(named) > 15
    for expression in expressions:
        for name, label in _labels_of(expression):
            assert label in labels[name], expression


def test_the_dashboard_asks_what_prometheus_understands(tmp_path: Path) -> None:
    group = [{"record": f"panel:{n}", "expr": text} for n, text in enumerate(queries())]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": group}]}))

    status, said = promtool("check", "rules", file)

    assert (status, len(group) > 15) == (0, True), said


def test_what_a_process_answers_is_as_prometheus_wants_it() -> None:
    registry = make_registry(
        Vitals(running=lambda: 1, slots=lambda: 8, clock_offset=lambda: 0.5, measures_ledger=True),
        dict,
    )
    metrics = PrometheusMetrics(registry, now=lambda: NOON)
    metrics.claimed([execution()], now=NOON)
    metrics.attempt_ended(Ending.SUCCEEDED, seconds=1)
    metrics.recorded(State.SUCCEEDED)

    status, said = promtool("check", "metrics", stdin=generate_latest(registry).decode())

    assert (status, said) == (0, "")
