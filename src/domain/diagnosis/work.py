"""Schedules against the tasks of a jobs file, and tasks against the broker's patience."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import attrs

from cronhare.domain.durations import say_duration
from cronhare.domain.task import Task, TaskRef

from .finding import Finding, Severity, counted, named

_HOW_TO_ASK = "`rabbitmqctl eval 'application:get_env(rabbit, consumer_timeout).'` in milliseconds"


@attrs.frozen(kw_only=True)
class ScheduleFacts:
    """A row of the users' table. *task* is None if it cannot be understood; see *problem*.

    *timeout* replaces the task's own where it is set.
    """

    name: str
    task: TaskRef | None
    enabled: bool = True
    queue: str | None = None
    timeout: timedelta | None = None
    problem: str | None = None


def judge_rows(schedules: Sequence[ScheduleFacts]) -> Iterator[Finding]:
    """Judge the rows by themselves."""
    broken = [schedule for schedule in schedules if schedule.problem is not None]
    for schedule in broken:
        what = f"{schedule.name} cannot be planned: {schedule.problem}"
        cure = "mend its row in the table Scheduler; it is looked at again at once"
        yield Finding(Severity.WARNING, "schedules", what, cure)
    if not broken:
        what = f"{counted(len(schedules), 'schedule')}, none with a fault"
        yield Finding(Severity.OK, "schedules", what)


def judge_tasks(
    schedules: Sequence[ScheduleFacts], tasks: Sequence[Task] | None
) -> Iterator[Finding]:
    """Hold the schedules against the tasks; None if no jobs file was given.

    A task without a schedule is fine: it may be another one's, or be run by a foreign message.
    """
    if tasks is None:
        yield Finding(
            Severity.NOTE,
            "tasks",
            "No jobs file was given: whether every schedule has its task is not known",
            "name the workers' file by --jobs or CRON_JOBS",
        )
        return
    known = {task.ref for task in tasks}
    homeless = [
        schedule
        for schedule in schedules
        if schedule.enabled and schedule.task is not None and schedule.task not in known
    ]
    for schedule in homeless:
        yield _homeless(schedule)
    if not homeless:
        what = f"{counted(len(tasks), 'task')} in the jobs file; every schedule has its own"
        yield Finding(Severity.OK, "tasks", what)


def _homeless(schedule: ScheduleFacts) -> Finding:
    task = schedule.task
    assert task is not None
    return Finding(
        Severity.WARNING,
        "tasks",
        f"Schedule {schedule.name} wants {task}, which this jobs file has not: a worker with this "
        "file would set its runs apart",
        f'add a task with type = "{task.type}" and id = {task.id} to the file of the workers of '
        f"{schedule.queue}; fine if they have another file; else disable the schedule",
    )


def judge_timeouts(
    schedules: Sequence[ScheduleFacts], tasks: Sequence[Task] | None, *, patience: timedelta
) -> Iterator[Finding]:
    """Name what may run for longer than the broker waits for an ack, its *patience*.

    Of *tasks* that nobody named, None, nothing good can be said.
    """
    long = {f"task {task.name}" for task in tasks or () if task.timeout > patience}
    long |= {
        f"schedule {schedule.name}"
        for schedule in schedules
        if schedule.timeout is not None and schedule.timeout > patience
    }
    usual = f"the broker's consumer timeout, {say_duration(patience)} unless somebody changed it"
    if not long:
        if tasks is not None:
            yield Finding(Severity.OK, "tasks", f"None may run for longer than {usual}")
        return
    yield Finding(
        Severity.NOTE,
        "tasks",
        f"Longer than {usual}, may run: {named(sorted(long))}. That is harmless: the broker hands "
        "out the message again, the start fence refuses the copy, the task goes on undisturbed",
        "nothing must be done. To spare the worker a new channel, raise consumer_timeout in "
        f"rabbitmq.conf; what it is now, tells {_HOW_TO_ASK}",
    )
