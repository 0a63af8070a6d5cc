"""What the doctor says of jobs files that share a ledger."""

from collections.abc import Sequence
from typing import Any

import attrs

from cronhare.application.doctor.finding import Finding, Seen
from cronhare.application.doctor.work import SCHEDULES
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.ports.inspection import DatabaseFacts, LedgerFacts, ScheduleFacts, Severity

ONE, TWO = TaskRef("worker", 1), TaskRef("worker", 2)

NIGHTLY = ScheduleFacts(
    name="nightly", task=ONE, queue="cron_scheduler", source="jobs.toml", task_name="backup"
)
THEIRS = attrs.evolve(NIGHTLY, name="theirs", task=TWO, source="user.toml", queue="cron_theirs")
BACKUP = Task(name="backup", ref=ONE, source="jobs.toml", command=("true",))


def judged(*schedules: ScheduleFacts, tasks: Sequence[Task] | None = None) -> list[Finding]:
    return of_subject("sources", schedules, tasks)


def judge_tasks(schedules: Sequence[ScheduleFacts], tasks: Sequence[Task]) -> list[Finding]:
    return of_subject("tasks", schedules, tasks)


def of_subject(
    subject: str, schedules: Sequence[ScheduleFacts], tasks: Sequence[Task] | None
) -> list[Finding]:
    sqlite = DatabaseFacts(product="SQLite", version="3.40.1")
    ledger = LedgerFacts(database=sqlite, schema="0001", schedules=schedules)
    found = SCHEDULES.judge(Seen(ledger=ledger, tasks=tasks))
    return [finding for finding in found if finding.subject == subject]


def of(schedule: ScheduleFacts, **changes: Any) -> ScheduleFacts:  # noqa: ANN401
    return attrs.evolve(schedule, **changes)


def test_one_file_that_names_its_tasks_is_nothing_to_speak_of() -> None:
    by_hand = of(NIGHTLY, name="by-hand", source=None, task_name=None)

    assert judged(NIGHTLY, of(NIGHTLY, name="noon"), by_hand, tasks=[BACKUP]) == []


def test_a_queue_of_two_files_must_be_mended() -> None:
    [finding] = judged(NIGHTLY, of(THEIRS, queue="cron_scheduler"))

    assert finding.severity is Severity.ERROR
    assert finding.what.startswith("Queue cron_scheduler has schedules of jobs.toml and user.toml")
    assert "one file" in finding.cure
    assert "--queues" in finding.cure


def test_what_is_off_shares_nothing() -> None:
    assert judged(NIGHTLY, of(THEIRS, task=ONE, queue="cron_scheduler", enabled=False)) == []


def test_schedules_of_another_file_are_told_once_and_not_called_homeless() -> None:
    schedules = [NIGHTLY, THEIRS, of(THEIRS, name="theirs-too")]

    [finding] = judged(*schedules, tasks=[BACKUP])
    [tasks] = judge_tasks(schedules, [BACKUP])

    assert finding.severity is Severity.NOTE
    assert "2 schedules of user.toml, another file: theirs, theirs-too" in finding.what
    assert tasks.severity is Severity.OK


def test_a_file_that_nothing_was_applied_from_may_be_the_wrong_one() -> None:
    [finding] = judged(THEIRS, tasks=[BACKUP])
    [tasks] = judge_tasks([THEIRS], [BACKUP])

    assert finding.severity is Severity.WARNING
    assert "under another name" in finding.cure
    assert tasks.what == "1 task in the jobs file or app, which no schedule that is on asks for"


def test_a_row_whose_name_and_number_are_two_tasks_runs_neither() -> None:
    sweep = Task(name="sweep", ref=TWO, source="jobs.toml", command=("true",))

    [finding] = judged(of(NIGHTLY, task=TWO), tasks=[BACKUP, sweep])

    assert finding.severity is Severity.WARNING
    assert "Schedule nightly runs neither" in finding.what
    assert "task_name to NULL" in finding.cure


def test_a_name_that_the_file_has_no_more_is_homeless() -> None:
    [finding] = judge_tasks([of(NIGHTLY, task_name="gone")], [BACKUP])

    assert finding.severity is Severity.WARNING
    assert "nightly" in finding.what
