"""The work: schedules and their tasks, jobs files beside each other, runs, targets."""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from shlex import quote

from cronhare.domain.events.targets import ByEmail, untellable
from cronhare.domain.retries.limits import BreakerState
from cronhare.domain.retries.retry import TASK_WAIT
from cronhare.domain.schedules.catalog import ONE_FILE_EACH, Catalog, MissingKind, MissingTask
from cronhare.domain.schedules.conditions import NO_SUCH_CALENDAR
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import shown
from cronhare.domain.texts.words import counted, plural
from cronhare.ports.inspection import (
    Fit,
    ScheduleFacts,
    Unreachable,
    Waiting,
)

from ..reports.clashes import say_shared, shared_queues
from ..starting import have_up_serve, serve, start_up
from .finding import Finding, NotSeenError, Rules, Said, Seen, error, named, note, ok, warning

SCHEDULES, RUNS, TARGETS = Rules(), Rules(), Rules()


# Schedules


def count_of(schedules: Iterable[ScheduleFacts]) -> int:
    return sum(each.count for each in schedules)


def named_of(
    schedules: Sequence[ScheduleFacts],
    say: Callable[[str, ScheduleFacts], str] = lambda name, _: name,
) -> str:
    known = sorted(((name, each) for each in schedules for name in each.names), key=itemgetter(0))
    return named([say(name, each) for name, each in known], total=count_of(schedules))


def _schedules(seen: Seen) -> Sequence[ScheduleFacts]:
    if seen.schedules is None:
        raise NotSeenError
    return seen.schedules


@SCHEDULES.rule("schedules")
def broken_schedules(seen: Seen) -> Said:
    broken = defaultdict[str, list[ScheduleFacts]](list)
    for schedule in _schedules(seen):
        if schedule.problem is not None:
            broken[schedule.problem].append(schedule)
    for problem, alike in broken.items():
        cure = "mend the row in the table Scheduler; it is looked at again at once"
        if NO_SUCH_CALENDAR in problem:
            files = dict.fromkeys(each.source or "the row" for each in alike)
            where = f"skip_on or only_on of {named([*files])}"
            cure = f"apply the jobs file that has it, or mend the name in {where}"
        yield warning(f"{named_of(alike)} cannot be planned: {problem}", cure)


@SCHEDULES.rule("schedules")
def sound_schedules(seen: Seen) -> Said:
    if all(schedule.problem is None for schedule in _schedules(seen)):
        yield ok(f"{counted(count_of(_schedules(seen)), 'schedule')}, none with a fault")


# Schedules against the tasks of a jobs file. A task without a schedule is fine: it may be another
# one's, or be run by a foreign message


def _enabled(seen: Seen) -> Sequence[ScheduleFacts]:
    return [each for each in seen.schedules or () if each.enabled and each.task is not None]


def _found(seen: Seen) -> Iterator[tuple[ScheduleFacts, Task | MissingTask]]:
    if seen.tasks is None:
        raise NotSeenError
    catalog = Catalog(seen.tasks)
    for each in _enabled(seen):
        assert each.task is not None
        yield (
            each,
            catalog.find(each.task, source=each.source, name=each.task_name, topic=each.topic),
        )


def _missing(seen: Seen, kind: MissingKind) -> Mapping[MissingTask, Sequence[ScheduleFacts]]:
    found = defaultdict[MissingTask, list[ScheduleFacts]](list)
    for schedule, task in _found(seen):
        if isinstance(task, MissingTask) and task.kind is kind:
            found[task].append(schedule)
    return found


@SCHEDULES.rule("tasks")
def without_a_task(seen: Seen) -> Said:
    """They are told together: with another file than the workers' it is all of them."""
    homeless = [each for some in _missing(seen, MissingKind.UNKNOWN).values() for each in some]
    if homeless:
        wanted = named_of(homeless, lambda name, each: f"{name} ({each.task})")
        first, queues = homeless[0].task, dict.fromkeys(str(each.queue) for each in homeless)
        assert first is not None
        yield warning(
            f"{counted(count_of(homeless), 'schedule')} without a task in this jobs file or app: "
            f"{wanted}. With a worker of it their runs fail for good",
            f'add the tasks (type = "{first.type}", id = {first.id}, …) to the file of the workers '
            f"of {named([*queues])}; fine if they have another file; else disable the schedules",
        )


@SCHEDULES.rule("tasks")
def with_their_tasks(seen: Seen) -> Said:
    if seen.tasks is None:
        if seen.jobs is None:
            what = "No jobs file or app was given: whether every schedule has its task is not known"
            yield note(what, "name what the workers have: --jobs or CRON_JOBS, --app or CRON_APP")
        return
    here = f"{counted(len(seen.tasks), 'task')} in the jobs file or app"
    if seen.schedules is None:
        cure = "see to the database: the ledger, which has the schedules, could not be read"
        yield note(f"{here}; whether every schedule has its own is not known", cure)
    elif not _missing(seen, MissingKind.UNKNOWN):
        has_any = any(isinstance(task, Task) for _, task in _found(seen))
        of_file = "; every schedule of it has its own"
        yield ok(f"{here}{of_file if has_any else ', which no schedule that is on asks for'}")


# Several jobs files on one ledger


@SCHEDULES.rule("sources")
def shared_by_files(seen: Seen) -> Said:
    used = [(each.queue, each.source) for each in _enabled(seen) if each.queue and each.source]
    together = {file.source for file in seen.files}  # a file and an app, given to one worker
    for queue, sources in shared_queues(used).items():
        if together.issuperset(sources):
            continue
        what = say_shared(queue, sources)
        cure = f"{ONE_FILE_EACH}; then `cronhare failed replay`"
        yield error(f"{what[0].upper()}{what[1:]}", cure)


@SCHEDULES.rule("sources")
def contradicted(seen: Seen) -> Said:
    for missing, schedules in _missing(seen, MissingKind.CONTRADICTED).items():
        for schedule in schedules:
            one = schedule.count == 1
            runs = f"Schedule{'' if one else 's'} {named_of([schedule])} run{'s' if one else ''}"
            yield warning(f"{runs} neither: {missing.reason}", missing.cure)


@SCHEDULES.rule("sources")
def of_other_files(seen: Seen) -> Said:
    """With schedules of its own a file is one of several. Without, it may be the wrong one."""
    foreign = defaultdict[str, list[ScheduleFacts]](list)
    for schedules in _missing(seen, MissingKind.FOREIGN).values():
        for schedule in schedules:
            foreign[str(schedule.source)].append(schedule)
    sources = Catalog(seen.tasks or ()).sources
    ours = any(each.source in sources for each in _enabled(seen) if each.source)
    for source, theirs in sorted(foreign.items()):
        count = counted(count_of(theirs), "schedule")
        cure = "fine if workers have that file; if it is this one under another name, apply this"
        what = f"{count} of {source}, another file: {named_of(theirs)}"
        yield (note if ours else warning)(what, cure)


# Runs whose time has come and that no worker begins: an outage, and not a backlog

_OR = ". What is not wanted any more: `cronhare executions cancel ID`, or all by `--schedule NAME`"
_HELD = (
    "`cronhare executions list --state running` shows what has the places; a row that another "
    "session holds, or that the ledger refuses, is told by the workers' logs as `attempt.put-off`"
)


class _Why(enum.Enum):
    """Why a run does not begin, in the order in which that is told."""

    NOBODY_SERVES_IT = enum.auto()
    NOT_SENT = enum.auto()
    ALL_ARE_BUSY = enum.auto()
    BROKER_IS_AWAY = enum.auto()
    UP_DOES_NOT_SERVE_IT = enum.auto()
    UP_IS_BUSY_OR_GONE = enum.auto()


def _why(seen: Seen, waiting: Waiting) -> _Why:
    if seen.in_memory:
        known = seen.activity.named
        is_served = known is None or waiting.queue in known
        return _Why.UP_IS_BUSY_OR_GONE if is_served else _Why.UP_DOES_NOT_SERVE_IT
    if isinstance(seen.broker, Unreachable):
        return _Why.BROKER_IS_AWAY
    things = seen.broker_facts.things
    consumers = {thing.name: thing.consumers for thing in things if thing.fit is not Fit.MISSING}
    if waiting.queue in consumers and not waiting.sent:
        return _Why.NOT_SENT
    return _Why.ALL_ARE_BUSY if consumers.get(waiting.queue) else _Why.NOBODY_SERVES_IT


@RUNS.rule("runs")
def waiting_runs(seen: Seen) -> Said:
    found = defaultdict[_Why, list[Waiting]](list)
    for each in seen.activity.waiting:
        found[_why(seen, each)].append(each)
    for why in _Why:
        if why in found:
            yield _wait(seen, why, found[why])


def _wait(seen: Seen, why: _Why, waiting: Sequence[Waiting]) -> Finding:
    names = list(dict.fromkeys(each.queue for each in waiting))
    queues, since = named(names), say_moment(min(each.since for each in waiting))
    runs = sum(each.runs for each in waiting)
    these = f"{counted(runs, 'run')} wait{'s' if runs == 1 else ''} since {since}"
    match why:
        case _Why.NOBODY_SERVES_IT:
            cure = f"start a worker for it: {serve(names, seen.options)}{_OR}"
            return error(f"{these}, and nobody serves {queues}", cure)
        case _Why.NOT_SENT:
            return error(
                f"{these} to be handed to the broker, for {queues}: no scheduler runs, it cannot "
                "reach the broker, or another session holds their rows",
                "start `cronhare scheduler` (or `cronhare up` with the jobs file of that queue); "
                "if one runs, its log says what keeps it from the broker, and if nothing does, "
                "`ledger.busy` in docs/reference/log-actions.md says how to find who holds rows. "
                f"They are sent as soon as it can{_OR}",
            )
        case _Why.ALL_ARE_BUSY:
            cure = f"start more workers, or raise CRON_CONCURRENCY; {_HELD}"
            return warning(f"{these} for a worker that is free, or are put off by all", cure)
        case _Why.BROKER_IS_AWAY:
            what = f"{these} for {queues}; whether anybody serves it, only the broker can tell"
            return warning(what, "see to the broker, then run doctor once more")
        case _Why.UP_DOES_NOT_SERVE_IT:
            return error(
                f"{these} in {queues}, and `cronhare up`, which is there, does not serve it",
                f"{have_up_serve(names)}, and start `cronhare up` anew{_OR}",
            )
        case _Why.UP_IS_BUSY_OR_GONE:
            return _wait_in_up(seen, waiting, these, names)


def _wait_in_up(
    seen: Seen, waiting: Sequence[Waiting], these: str, names: Sequence[str]
) -> Finding:
    # One process serves all queues of its file: where it runs anything, all of them may wait.
    is_there, there = seen.activity.named is not None, f"{these} in {named(names)}"
    if seen.activity.is_at_work:
        idle = [each.queue for each in waiting if not is_there and not each.running]
        serves = f". If `cronhare up` does not serve {named(idle)}, {have_up_serve(idle)}{_OR}"
        return warning(
            f"{these} for a worker that is free, or are put off by all",
            f"raise CRON_CONCURRENCY{serves if idle else ''}; {_HELD}",
        )
    if is_there:
        return error(
            f"{there}, and nothing runs, though `cronhare up` is there and serves it",
            "its log says what is in the way; `cronhare nodes list` shows whether it was drained, "
            f"or is cut off{_OR}",
        )
    return error(
        f"{there}, and nothing runs: `cronhare up` has ended, or does not serve it",
        f"start `{start_up(seen.options)}`; if it runs, {have_up_serve(names)}{_OR}",
    )


@RUNS.rule("runs")
def nothing_waits(seen: Seen) -> Said:
    if not seen.activity.waiting:
        yield ok("None has waited for a worker for more than a minute")


# What goes wrong with tasks


@RUNS.rule("runs")
def failed(seen: Seen) -> Said:
    if unresolved := seen.activity.failures:
        verb = "is" if unresolved == 1 else "are"
        yield warning(
            f"{counted(unresolved, 'run')} failed for good and {verb} unresolved",
            "`cronhare failed list` has the reasons; then `cronhare failed replay ID` runs one "
            "again, `cronhare failed discard ID` lets it be",
        )


@RUNS.rule("runs")
def quarantined(seen: Seen) -> Said:
    if unresolved := seen.activity.quarantined.unresolved:
        verb = "is" if unresolved == 1 else "are"
        yield warning(
            f"{counted(unresolved, 'run')} {verb} quarantined: crashing or restarting workers, "
            "refused by the database, or with a broken row",
            "`cronhare quarantine list` has the reasons; mend them, then `cronhare quarantine "
            "release ID`, or `cronhare quarantine discard ID`",
        )


@RUNS.rule("runs")
def awaiting_a_task(seen: Seen) -> Said:
    if runs := seen.activity.awaited:
        waits = (
            "waits for a worker that has its" if runs == 1 else "wait for workers that have their"
        )
        yield warning(
            f"{counted(runs, 'run')} {waits} task; without one they fail for good within "
            f"{TASK_WAIT // timedelta(minutes=1)} minutes",
            "reload the workers whose jobs file is older (systemctl reload, kill -HUP; under nohup "
            "restart them), add the task to it, or cancel the run (`cronhare executions cancel "
            "ID`); `cronhare executions list --state retrying` has the runs",
        )


@RUNS.rule("tasks")
def breakers_that_are_not_closed(seen: Seen) -> Said:
    untried = "is not tried again"
    for state, said in (
        (BreakerState.OPEN, f"open: what fails {untried}"),
        (BreakerState.HALF_OPEN, f"half open: one retry is its probe, what fails beside {untried}"),
    ):
        names = [each.said for each in seen.activity.breakers if each.state(seen.now) is state]
        if names:
            verb = "is" if len(names) == 1 else "are"
            task = quote(names[0]) if len(names) == 1 else "TASK"
            yield warning(
                f"The circuit {plural(len(names), 'breaker')} of {named(names)} {verb} {said}",
                f"`cronhare failed list --all --task {task}` has the errors; once its cause is "
                f"gone a probe that succeeds closes it, and `cronhare breakers reset {task}` does "
                "so at once",
            )


@RUNS.rule("queues")
def spent_budgets(seen: Seen) -> Said:
    budgets = [budget.as_of(seen.now) for budget in seen.activity.budgets]
    if spent := [each for each in budgets if not each.remaining(seen.now)]:
        until = say_moment(max(each.free_at(seen.now) for each in spent))
        yield warning(
            f"The retry budget of {named([each.queue for each in spent])} is spent until {until}",
            "mend what makes so many attempts fail; `cronhare budgets list` has what is left, and "
            "CRON_RETRY_BUDGET how much there is",
        )


@RUNS.rule("runs")
def late_runs(seen: Seen) -> Said:
    late, until = seen.activity.late_runs, seen.activity.late_until
    if late and until is not None:
        yield note(
            f"{counted(late, 'late run')} still to begin, the last at {say_moment(until)}, as "
            "CRON_CATCH_UP_BUDGET lets so many begin in a minute",
            "none is lost; a larger one holds for those that come late from then on, and "
            "`cronhare explain ID` tells the turn of one",
        )


# Targets of events


@TARGETS.rule("notify")
def cannot_be_told(seen: Seen) -> Said:
    """A worker's environment may have more than this shell's."""
    if seen.settings is None:
        return
    there = "where a worker or `cronhare up` runs; fine if it is set there"
    for told in seen.subscriptions:
        for name, why in untellable(told, has_mail=seen.settings.has_mail).items():
            what = f"notify.{name} cannot be told from here: {why}"
            if isinstance(told.targets[name].means, ByEmail):
                yield warning(what, f"set CRON_SMTP_URL=smtp://user:password@host:587 {there}")
            else:
                yield note(what, f"set it {there}")


#: Characters of the reason why a target was not told.
_LONGEST_REASON = 200


@TARGETS.rule("notify")
def not_told(seen: Seen) -> Said:
    """Targets that were given up; not those that the file at hand has no more."""
    ours = {each.source: each for each in seen.subscriptions}
    for target in seen.activity.untold:
        if target.source in ours and ours[target.source].target(target.name) is None:
            continue
        at = f", of the last one at {say_moment(target.last_at)}"
        why = f": {target.error[:_LONGEST_REASON]}" if target.error else ""
        yield warning(
            f"notify.{shown(target.name)} of {shown(target.source)} was not told of "
            f"{counted(target.events, 'event')}{at}{why}",
            f"mend that; `cronhare alerts test {quote(target.name)}` tries it at once. Of alerts "
            "that hold it is told anew within an hour or so; `cronhare events list --state "
            "given-up` has what it was not told of",
        )
