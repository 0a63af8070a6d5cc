"""Schedules against the tasks of a jobs file, and tasks against the broker's patience."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from cronhare.domain.schedules.catalog import Catalog, MissingKind, MissingTask
from cronhare.domain.schedules.conditions import NO_SUCH_CALENDAR
from cronhare.domain.schedules.task import DEFAULT_TIMEOUT, Task
from cronhare.domain.texts.moments import say_duration
from cronhare.domain.texts.words import counted
from cronhare.ports.inspection import BrokerGuide, ScheduleFacts, Severity

from .finding import Finding, named


def count_of(schedules: Iterable[ScheduleFacts]) -> int:
    """Count the rows."""
    return sum(each.count for each in schedules)


def named_of(
    schedules: Sequence[ScheduleFacts],
    say: Callable[[str, ScheduleFacts], str] = lambda name, _: name,
) -> str:
    """List the first rows by name, and count the others."""
    known = sorted(((name, each) for each in schedules for name in each.names), key=itemgetter(0))
    return named([say(name, each) for name, each in known], total=count_of(schedules))


def judge_rows(schedules: Sequence[ScheduleFacts], *, unread: int = 0) -> Iterator[Finding]:
    """Judge the rows by themselves; so many others are *unread*."""
    broken = [schedule for schedule in schedules if schedule.problem is not None]
    for problem, alike in _by_problem(broken).items():
        what = f"{named_of(alike)} cannot be planned: {problem}"
        yield Finding(Severity.WARNING, "schedules", what, _cure_of(problem, broken))
    if unread:
        more = f"{counted(unread, 'more schedule')} {'is' if unread == 1 else 'are'}"
        what = f"{more} not planned yet, or not as others are, and not looked at here"
        cure = "ask again once a scheduler has planned them, or those are mended that are named"
        yield Finding(Severity.NOTE, "schedules", what, cure)
    if not broken:
        what = f"{counted(count_of(schedules), 'schedule')}, none with a fault"
        yield Finding(Severity.OK, "schedules", what)


def _cure_of(problem: str, broken: Sequence[ScheduleFacts]) -> str:
    if NO_SUCH_CALENDAR not in problem:
        return "mend the row in the table Scheduler; it is looked at again at once"
    files = dict.fromkeys(
        each.source or "the row" for each in broken if str(each.problem) == problem
    )
    where = f"skip_on or only_on of {named(list(files))}"
    return f"apply the jobs file that has it, or mend the name in {where}"


def _by_problem(broken: Sequence[ScheduleFacts]) -> Mapping[str, list[ScheduleFacts]]:
    found: dict[str, list[ScheduleFacts]] = {}
    for schedule in broken:
        found.setdefault(str(schedule.problem), []).append(schedule)
    return found


def judge_tasks(
    schedules: Sequence[ScheduleFacts] | None, tasks: Sequence[Task] | None
) -> Iterator[Finding]:
    """Hold the schedules, None if they are not known, against the tasks, None without a jobs file.

    A task without a schedule is fine: it may be another one's, or be run by a foreign message.
    What is of another file is judged by `judge_sources`.
    """
    if tasks is None:
        yield Finding(
            Severity.NOTE,
            "tasks",
            "No jobs file was given: whether every schedule has its task is not known",
            "name the workers' file by --jobs or CRON_JOBS",
        )
        return
    here = f"{counted(len(tasks), 'task')} in the jobs file"
    if schedules is None:
        unknown = f"{here}; whether every schedule has its own is not known"
        cure = "see to the database: the ledger, which has the schedules, could not be read"
        yield Finding(Severity.NOTE, "tasks", unknown, cure)
        return
    catalog = Catalog(tasks)
    enabled = [schedule for schedule in schedules if schedule.enabled]
    homeless = [one for one in enabled if _is_missing(one, catalog, MissingKind.UNKNOWN)]
    unheard = [one for one in enabled if _is_missing(one, catalog, MissingKind.UNHEARD)]
    if unheard:
        yield _unheard(unheard)
    if homeless:
        yield _homeless(homeless)
    elif any(isinstance(lookup(schedule, catalog), Task) for schedule in enabled):
        what = f"{here}; every schedule of this file has its own"
        yield Finding(Severity.OK, "tasks", what)
    else:
        yield Finding(Severity.OK, "tasks", f"{here}, which no schedule that is on asks for")


def _homeless(schedules: Sequence[ScheduleFacts]) -> Finding:
    """Tell them together: with another file than the workers' it is all of them."""
    wanted = named_of(schedules, lambda name, each: f"{name} ({each.task})")
    first, queues = schedules[0].task, dict.fromkeys(str(each.queue) for each in schedules)
    assert first is not None
    return Finding(
        Severity.WARNING,
        "tasks",
        f"{counted(count_of(schedules), 'schedule')} without a task in this jobs file: {wanted}. "
        "With a worker of this file their runs fail for good",
        f'add the tasks (type = "{first.type}", id = {first.id}, …) to the file of the workers of '
        f"{named(list(queues))}; fine if they have another file; else disable the schedules",
    )


def _unheard(schedules: Sequence[ScheduleFacts]) -> Finding:
    topics = dict.fromkeys(str(schedule.topic) for schedule in schedules)
    return Finding(
        Severity.NOTE,
        "tasks",
        f"No task in this jobs file listens to {named(list(topics))}, the topics of "
        f"{counted(count_of(schedules), 'schedule')}: their runs are completed, or fail if they "
        "say so",
        f'let a task of their workers\' file listen: topics = ["{next(iter(topics))}"]',
    )


def _is_missing(schedule: ScheduleFacts, catalog: Catalog, kind: MissingKind) -> bool:
    found = lookup(schedule, catalog)
    return isinstance(found, MissingTask) and found.kind is kind


def lookup(schedule: ScheduleFacts, catalog: Catalog) -> Task | MissingTask | None:
    """Find a schedule's task as a worker would; None for a row that names none."""
    if schedule.task is None:
        return None
    return catalog.find(
        schedule.task, source=schedule.source, name=schedule.task_name, topic=schedule.topic
    )


def judge_timeouts(
    schedules: Sequence[ScheduleFacts] | None, tasks: Sequence[Task] | None, guide: BrokerGuide
) -> Iterator[Finding]:
    """Name what is given longer than the broker waits for an ack.

    The default is longer than that, too, and says nothing of how long a task takes.
    Where *tasks* or *schedules* are not known, none is called fine.
    """
    timeout = guide.consumer_timeout
    long = [
        f"task {task.name}"
        for task in tasks or ()
        if task.timeout > timeout and task.timeout != DEFAULT_TIMEOUT
    ]
    patient = [
        schedule
        for schedule in schedules or ()
        if schedule.timeout is not None and schedule.timeout > timeout
    ]
    total = len(long) + count_of(patient)
    long += [f"schedule {name}" for schedule in patient for name in schedule.names]
    usual = f"the broker's consumer timeout, {say_duration(timeout)} unless somebody changed it"
    if not long:
        if tasks is not None and schedules is not None:
            what = f"None is given longer than {usual}; to take longer would do no harm"
            yield Finding(Severity.OK, "tasks", what)
        return
    yield Finding(
        Severity.NOTE,
        "tasks",
        f"Longer than {usual}, may run: {named(sorted(long), total=total)}. That is harmless: the "
        "broker hands out the message again, the start fence refuses the copy, the task goes on "
        "undisturbed",
        f"nothing must be done. To spare the worker a new channel, {guide.longer}",
    )
