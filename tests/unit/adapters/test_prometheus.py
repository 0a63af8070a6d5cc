"""Metrics as text, whatever names rows have; and what a process counts of itself."""

from datetime import datetime, timedelta

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cronhare.adapters.prometheus.metrics import PrometheusMetrics, exposition
from cronhare.application.administration.reading.measures import (
    MOST_SERIES,
    OTHERS,
    dead_letters,
    unfinished,
)
from cronhare.application.administration.views.work import Measured
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.schedules.skips import SkipKind
from cronhare.ports.broker import Published
from cronhare.ports.records import QueueLoad
from cronhare.ports.statistics import By, FailureCount
from cronhare.ports.system import MetricsPort
from tests.unit.executions import NOON, execution


def count(queue: str, job: str, failures: int) -> FailureCount:
    return FailureCount(
        group={By.QUEUE: queue, By.TASK: job},
        failures=failures,
        quarantined=0,
        unresolved=0,
        mean_retries=0.0,
        first_at=NOON,
        last_at=NOON,
    )


def load(queue: str, executions: int) -> QueueLoad:
    return QueueLoad(queue=queue, state=State.RUNNING, executions=executions, oldest_due_at=NOON)


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_the_metrics_have_the_original_names_and_labels() -> None:
    view: Measured = {
        "job_queue_dlq_jobs_total": dead_letters(
            [count("cron_scheduler", "report 25", 3)], total=3
        ),
        "job_queue_dlq_depth": {(): 2},
        "cronhare_executions_unfinished": unfinished([load("mails", 4)]),
    }

    text = exposition(view)

    assert 'job_queue_dlq_jobs_total{job_name="report 25",source_queue="cron_scheduler"} 3' in text
    assert "# TYPE job_queue_dlq_jobs_total counter" in text
    assert "\njob_queue_dlq_depth 2.0\n" in text
    assert samples(text)["cronhare_executions_unfinished", "mails", "running"] == 4


@pytest.mark.parametrize(
    "name", ['a"b\\c', "two\nlines", "}", "\x1b[31m", "\ud800", "ß" * 1_000, "# HELP x", ""]
)
def test_a_name_is_one_label_whatever_it_holds(name: str) -> None:
    view: Measured = {"job_queue_dlq_jobs_total": dead_letters([count(name, name, 1)], total=1)}

    text = exposition(view)
    found = samples(text)

    assert text.replace("\n", "").isprintable()
    assert [key[0] for key in found if key[0].startswith("job")] == ["job_queue_dlq_jobs_total"]
    assert all(len(label) <= 255 for key in found for label in key)


def test_what_has_no_series_of_its_own_is_counted_with_the_others() -> None:
    loads = [load(f"queue-{n}", 1) for n in range(MOST_SERIES + 5)]
    view: Measured = {
        "job_queue_dlq_jobs_total": dead_letters([count("q", "job", 7)], total=10),
        "cronhare_executions_unfinished": unfinished(loads),
    }

    found = samples(exposition(view))

    assert found["job_queue_dlq_jobs_total", OTHERS, OTHERS] == 3
    assert found["cronhare_executions_unfinished", OTHERS, "running"] == 5
    series = [key for key in found if key[0] == "cronhare_executions_unfinished"]
    assert len(series) == MOST_SERIES + 1


def test_events_that_nobody_heard_are_counted_by_topic() -> None:
    view: Measured = {"app_schedule_job_no_listener_total": {("user.created",): 3}}

    assert samples(exposition(view))["app_schedule_job_no_listener_total", "user.created"] == 3


SECOND = timedelta(seconds=1)


class Counted:
    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.metrics: MetricsPort = PrometheusMetrics(self.registry, now=self.now)
        self.at = NOON

    def now(self) -> datetime:
        return self.at

    def __getitem__(self, key: tuple[str, ...] | str) -> float:
        name, *labels = (key,) if isinstance(key, str) else key
        for family in text_string_to_metric_families(generate_latest(self.registry).decode()):
            for one in family.samples:
                if one.name == name and sorted(one.labels.values()) == sorted(labels):
                    return one.value
        return 0.0


@pytest.fixture
def counted() -> Counted:
    return Counted()


def due(seconds_ago: float, **fields: object) -> Execution:
    one = execution()
    due_at = NOON - timedelta(seconds=seconds_ago)
    return msgspec.structs.replace(one, due_at=due_at, published_at=None, **fields)


def test_lateness_is_counted_for_each_stage_and_each_execution(counted: Counted) -> None:
    late = [due(0.2), due(0.2), due(7)]

    counted.metrics.claimed(late, now=NOON)
    counted.at += SECOND
    counted.metrics.published(late, [Published.CONFIRMED] * 3)
    counted.metrics.started(due(7, started_at=NOON + 2 * SECOND))

    assert counted["cronhare_executions_claimed_total"] == 3
    assert counted["cronhare_lateness_seconds_count", "claimed"] == 3
    assert counted["cronhare_lateness_seconds_sum", "claimed"] == pytest.approx(7.4)
    assert counted["cronhare_lateness_seconds_bucket", "0.25", "claimed"] == 2
    assert counted["cronhare_lateness_seconds_bucket", "10.0", "claimed"] == 3
    assert counted["cronhare_lateness_seconds_sum", "published"] == pytest.approx(10.4)
    assert counted["cronhare_lateness_seconds_sum", "started"] == pytest.approx(9)


def test_a_retry_or_a_message_that_is_sent_again_is_not_late(counted: Counted) -> None:
    again = msgspec.structs.replace(due(60), published_at=NOON)
    retry = due(60, attempt=2, started_at=NOON)
    doubtful = due(60)

    counted.metrics.published(
        [again, retry, doubtful], [Published.CONFIRMED, Published.CONFIRMED, Published.UNKNOWN]
    )
    counted.metrics.started(retry)

    assert counted["cronhare_lateness_seconds_count", "published"] == 0
    assert counted["cronhare_lateness_seconds_count", "started"] == 0
    assert counted["cronhare_messages_published_total", "confirmed"] == 2
    assert counted["cronhare_messages_published_total", "unknown"] == 1
    assert counted["cronhare_attempts_started_total"] == 1


def test_each_event_has_its_own_series(counted: Counted) -> None:
    metrics = counted.metrics
    metrics.ticked()
    metrics.skipped({SkipKind.OVERLAP: 3, SkipKind.MISSED: 1})
    metrics.resent(4)
    metrics.lost(2)
    metrics.attempt_ended(Ending.FAILED, seconds=0.7)
    metrics.recorded(State.RETRYING)
    metrics.superseded()
    metrics.fenced()
    metrics.lease_lost()
    metrics.quarantined()

    assert counted["cronhare_last_tick_timestamp_seconds"] > 1e9
    assert counted["cronhare_instants_skipped_total", "overlap"] == 3
    assert counted["cronhare_executions_resent_total"] == 4
    assert counted["cronhare_attempts_lost_total"] == 2
    assert counted["cronhare_attempts_total", "failed"] == 1
    assert counted["cronhare_attempts_total", "succeeded"] == 0
    assert counted["cronhare_attempt_duration_seconds_bucket", "1.0", "failed"] == 1
    assert counted["cronhare_executions_total", "retrying"] == 1
    for name in (
        "cronhare_ends_superseded_total",
        "cronhare_fence_refusals_total",
        "cronhare_leases_lost_total",
        "cronhare_deliveries_quarantined_total",
    ):
        assert counted[name] == 1, name
