"""Metrics as text, whatever names rows have."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cronhare.adapters.prometheus.metrics import exposition, write_textfile
from cronhare.application.administration.reading.measures import (
    MOST_SERIES,
    OTHERS,
    dead_letters,
    unfinished,
)
from cronhare.application.administration.views.work import Measured
from cronhare.domain.execution import State
from cronhare.ports.records import QueueLoad
from cronhare.ports.statistics import By, FailureCount
from tests.unit.executions import NOON


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


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "cronhare.prom"
    path.write_text("old\n" * 10_000)

    write_textfile({"job_queue_dlq_depth": {(): 1}}, path)

    assert samples(path.read_text())["job_queue_dlq_depth",] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["cronhare.prom"]


def test_events_that_nobody_heard_are_counted_by_topic() -> None:
    view: Measured = {"app_schedule_job_no_listener_total": {("user.created",): 3}}

    assert samples(exposition(view))["app_schedule_job_no_listener_total", "user.created"] == 3
