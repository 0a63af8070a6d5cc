"""What a process counts of itself, as Prometheus reads it."""

from datetime import datetime, timedelta

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cronhare.adapters.prometheus.metrics import PrometheusMetrics
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.schedules.skips import SkipKind
from cronhare.ports.broker import Published
from cronhare.ports.system import MetricsPort
from tests.unit.executions import NOON, execution

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
