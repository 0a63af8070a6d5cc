"""The work: schedules and their tasks, jobs files beside each other, runs, targets."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from shlex import quote
from typing import Final

from cronhare.domain.events.targets import ByEmail, untellable
from cronhare.domain.facts import NAMES_TOLD, Fit, ScheduleFacts, Unreachable, UntoldTarget, Waiting
from cronhare.domain.nodes import alive
from cronhare.domain.retries.limits import BreakerState
from cronhare.domain.retries.retry import TASK_WAIT
from cronhare.domain.schedules.catalog import ONE_FILE_EACH, Catalog, MissingKind, MissingTask
from cronhare.domain.schedules.conditions import NO_SUCH_CALENDAR
from cronhare.domain.schedules.keys import is_standalone
from cronhare.domain.schedules.planning import FULL_COMPARISON
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.domain.texts.moments import say_moment
from cronhare.domain.texts.printable import echo, shown
from cronhare.domain.texts.words import counted, plural
from cronhare.domain.topology import is_a_queue

from ..reports.clashes import say_shared, shared_queues
from ..starting import have_up_serve, serve, start_up
from .finding import NotSeenError, Rules, Said, Seen, error, named, note, ok, warning

SCHEDULES, RUNS, TARGETS = Rules(), Rules(), Rules()


# Schedules


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
        unread = seen.ledger_facts.unread_schedules
        more = f"; {unread:,} more are not planned yet, and not looked at" if unread else ""
        yield ok(f"{counted(count_of(_schedules(seen)), 'schedule')}, none with a fault{more}")


# Schedules against the tasks of a jobs file. A task without a schedule is fine: it may be another
# one's, or be run by a foreign message


def _lookup(schedule: ScheduleFacts, catalog: Catalog) -> Task | MissingTask | None:
    """Find a schedule's task as a worker would; None for a row that names none."""
    if schedule.task is None:
        return None
    return catalog.find(
        schedule.task, source=schedule.source, name=schedule.task_name, topic=schedule.topic
    )


def _enabled(seen: Seen) -> Sequence[ScheduleFacts]:
    return [each for each in seen.schedules or () if each.enabled and each.task is not None]


def _missing(seen: Seen, kind: MissingKind) -> Sequence[ScheduleFacts]:
    """Find the schedules whose tasks are missing so."""
    if seen.tasks is None:
        raise NotSeenError
    catalog = Catalog(seen.tasks)
    found = [(each, _lookup(each, catalog)) for each in _enabled(seen)]
    return [each for each, task in found if isinstance(task, MissingTask) and task.kind is kind]


@SCHEDULES.rule("tasks")
def nobody_listens(seen: Seen) -> Said:
    if unheard := _missing(seen, MissingKind.UNHEARD):
        topics = [*dict.fromkeys(str(schedule.topic) for schedule in unheard)]
        yield note(
            f"No task in this jobs file listens to {named(topics)}, the topics of "
            f"{counted(count_of(unheard), 'schedule')}: their runs are completed, or fail if they "
            "say so",
            f'let a task of their workers\' file listen: topics = ["{topics[0]}"]',
        )


@SCHEDULES.rule("tasks")
def without_a_task(seen: Seen) -> Said:
    """They are told together: with another file than the workers' it is all of them."""
    if homeless := _missing(seen, MissingKind.UNKNOWN):
        wanted = named_of(homeless, lambda name, each: f"{name} ({each.task})")
        first, queues = homeless[0].task, dict.fromkeys(str(each.queue) for each in homeless)
        assert first is not None
        yield warning(
            f"{counted(count_of(homeless), 'schedule')} without a task in this jobs file: "
            f"{wanted}. With a worker of this file their runs fail for good",
            f'add the tasks (type = "{first.type}", id = {first.id}, …) to the file of the workers '
            f"of {named([*queues])}; fine if they have another file; else disable the schedules",
        )


@SCHEDULES.rule("tasks")
def with_their_tasks(seen: Seen) -> Said:
    if seen.tasks is None:
        if seen.jobs is None:
            what = "No jobs file was given: whether every schedule has its task is not known"
            yield note(what, "name the workers' file by --jobs or CRON_JOBS")
        return
    catalog, here = Catalog(seen.tasks), f"{counted(len(seen.tasks), 'task')} in the jobs file"
    if seen.schedules is None:
        cure = "see to the database: the ledger, which has the schedules, could not be read"
        yield note(f"{here}; whether every schedule has its own is not known", cure)
    elif _missing(seen, MissingKind.UNKNOWN):
        return
    elif any(isinstance(_lookup(schedule, catalog), Task) for schedule in _enabled(seen)):
        yield ok(f"{here}; every schedule of this file has its own")
    else:
        yield ok(f"{here}, which no schedule that is on asks for")


# Several jobs files on one ledger


@SCHEDULES.rule("sources")
def shared_by_files(seen: Seen) -> Said:
    used = [(each.queue, each.source) for each in _enabled(seen) if each.queue and each.source]
    for queue, sources in shared_queues(used).items():
        what = say_shared(queue, sources)
        yield error(
            f"{what[0].upper()}{what[1:]}", f"{ONE_FILE_EACH}; then `cronhare failed replay`"
        )


@SCHEDULES.rule("sources")
def number_of_two_files(seen: Seen) -> Said:
    """Our own workers go by names; rows by hand and other programs know the number alone."""
    holders = defaultdict[TaskRef, dict[str, str]](dict)
    by_hand = defaultdict[TaskRef, list[ScheduleFacts]](list)
    for schedule in _enabled(seen):
        assert schedule.task is not None
        if schedule.source:
            holders[schedule.task].setdefault(schedule.source, schedule.name)
        else:
            by_hand[schedule.task].append(schedule)
    for ref, places in sorted(holders.items()):
        if len(places) > 1:
            where = " and ".join(f"{name} of {source}" for source, name in sorted(places.items()))
            whose = f" ({named_of(rows)})" if (rows := by_hand[ref]) else ""
            yield warning(
                f"{ref} is the task of {where}: rows by hand{whose} and other programs' messages "
                "may mean either",
                "leave `id` out of one of the files, and apply it: a number of its own is assigned",
            )


@SCHEDULES.rule("sources")
def contradicted(seen: Seen) -> Said:
    catalog = Catalog(seen.tasks or ())
    for schedule in _missing(seen, MissingKind.CONTRADICTED):
        if isinstance(missing := _lookup(schedule, catalog), MissingTask):
            one = schedule.count == 1
            runs = f"Schedule{'' if one else 's'} {named_of([schedule])} run{'s' if one else ''}"
            yield warning(f"{runs} neither: {missing.reason}", missing.cure)


@SCHEDULES.rule("sources")
def of_other_files(seen: Seen) -> Said:
    """With schedules of its own a file is one of several. Without, it may be the wrong one."""
    foreign = defaultdict[str, list[ScheduleFacts]](list)
    for schedule in _missing(seen, MissingKind.FOREIGN):
        foreign[str(schedule.source)].append(schedule)
    sources = Catalog(seen.tasks or ()).sources
    ours = any(each.source in sources for each in _enabled(seen) if each.source)
    for source, theirs in sorted(foreign.items()):
        what = (
            f"{counted(count_of(theirs), 'schedule')} of {source}, another file: {named_of(theirs)}"
        )
        cure = "fine if workers have that file; if it is this one under another name, apply this"
        yield (note if ours else warning)(what, cure)


# Runs whose time has come and that no worker begins: an outage, and not a backlog

_OR = ". What is not wanted any more: `cronhare executions cancel ID`"
_HELD = (
    "a row that another session holds, or that the ledger refuses, is told by the workers' logs as "
    "`attempt.put-off`"
)


def _waiting(seen: Seen) -> Sequence[Waiting]:
    return [each for each in seen.activity.waiting if is_a_queue(each.queue)]


def _consumers(seen: Seen) -> Mapping[str, int]:
    """Count the consumers of each queue that is there, where the broker can."""
    things = seen.broker_facts.things
    return {thing.name: thing.consumers for thing in things if thing.fit is not Fit.MISSING}


def _sent(seen: Seen) -> Sequence[Waiting]:
    """Find what the broker has, or cannot have, as it has no such queue."""
    known = _consumers(seen)
    return [each for each in _waiting(seen) if each.sent or each.queue not in known]


def _names(waiting: Sequence[Waiting]) -> list[str]:
    return list(dict.fromkeys(each.queue for each in waiting))


def _queues(waiting: Sequence[Waiting]) -> str:
    return named(_names(waiting))


def _of(waiting: Sequence[Waiting]) -> str:
    runs, since = sum(each.runs for each in waiting), min(each.since for each in waiting)
    return f"{counted(runs, 'run')} wait{'s' if runs == 1 else ''} since {say_moment(since)}"


def _let_go(waiting: Sequence[Waiting]) -> str:
    """Say what becomes of runs whose schedules stay alive no more: their queues are served no more.

    That is a matter of moments, unless nobody was there when the schedule was edited.
    """
    if not any(map(is_standalone, _names(waiting))):
        return ""
    return (
        "; what is to stay alive no more, and has its task there, it cancels within "
        f"{FULL_COMPARISON // timedelta(minutes=1)} minutes{_OR}"
    )


@RUNS.rule("runs")
def waiting_on_no_queue(seen: Seen) -> Said:
    if broken := [each for each in seen.activity.waiting if not is_a_queue(each.queue)]:
        names = named([echo(name) for name in _names(broken)])
        cure = "write a task queue's name into the column queue of those rows of SchedulerExecution"
        yield error(f"{_of(broken)} on what cannot be a queue: {names}", cure)


@RUNS.rule("runs")
def waiting_for_nobody(seen: Seen) -> Said:
    consumers = _consumers(seen)
    if orphaned := [each for each in _sent(seen) if not consumers.get(each.queue)]:
        what = f"{_of(orphaned)}, and nobody serves {_queues(orphaned)}"
        yield error(what, f"start a worker for it: {serve(_names(orphaned), seen.jobs)}{_OR}")


@RUNS.rule("runs")
def not_sent(seen: Seen) -> Said:
    if isinstance(seen.broker, Unreachable):
        unsent = [each for each in _waiting(seen) if not each.sent]
    else:
        known = _consumers(seen)
        unsent = [each for each in _waiting(seen) if not each.sent and each.queue in known]
    if unsent:
        yield error(
            f"{_of(unsent)} to be handed to the broker, for {_queues(unsent)}: it is away, "
            "no scheduler runs, it has no such queue, or another session holds their rows",
            "start `cronhare scheduler` (or `cronhare up` with the jobs file of that queue); if "
            "one runs, its log says what keeps it from the broker, and if nothing does, "
            "docs/operators.md says at `ledger.busy` how to find who holds rows. "
            f"They are sent as soon as it can{_OR}",
        )


@RUNS.rule("runs")
def behind_others(seen: Seen) -> Said:
    consumers = _consumers(seen)
    if busy := [each for each in _sent(seen) if consumers.get(each.queue)]:
        what = f"{_of(busy)} for a worker that is free, or are put off by all"
        yield warning(what, f"start more workers, or raise CRON_CONCURRENCY; {_HELD}")


@RUNS.rule("runs")
def waiting_beside_a_broker_that_is_away(seen: Seen) -> Said:
    sent = [each for each in _waiting(seen) if each.sent]
    if isinstance(seen.broker, Unreachable) and sent:
        what = (
            f"{_of(sent)} in {_queues(sent)}; whether anybody serves it, only the broker can tell"
        )
        yield warning(what, "see to the broker, then run doctor once more")


def _in_up(seen: Seen, *, served: bool) -> Sequence[Waiting]:
    """Find what waits in memory for a queue that `cronhare up` serves, as far as that is known."""
    if not seen.in_memory:
        raise NotSeenError
    known = seen.activity.named
    return [each for each in _waiting(seen) if (known is None or each.queue in known) is served]


@RUNS.rule("runs")
def not_served_by_up(seen: Seen) -> Said:
    if waiting := _in_up(seen, served=False):
        yield error(
            f"{_of(waiting)} in {_queues(waiting)}, and `cronhare up`, which is there, does not "
            "serve it",
            f"{have_up_serve(_names(waiting))}, and start `cronhare up` anew"
            f"{_let_go(waiting) or _OR}",
        )


@RUNS.rule("runs")
def waiting_for_up(seen: Seen) -> Said:
    """One process serves all queues of its file: where it runs anything, all of them may wait."""
    if not (waiting := _in_up(seen, served=True)):
        return
    is_there, nothing = seen.activity.named is not None, "and nothing runs"
    if seen.activity.is_at_work:
        idle = [each for each in waiting if not is_there and not each.running]
        unless = (
            f". If `cronhare up` does not serve {_queues(idle)}, {have_up_serve(_names(idle))}"
            f"{_let_go(idle)}"
            if idle
            else ""
        )
        yield warning(
            f"{_of(waiting)} for a worker that is free, or are put off by all",
            f"raise CRON_CONCURRENCY{unless}; {_HELD}",
        )
    elif is_there:
        yield error(
            f"{_of(waiting)} in {_queues(waiting)}, {nothing}, though `cronhare up` is there and "
            "serves it",
            "its log says what is in the way; `cronhare nodes list` shows whether it was drained, "
            f"or is cut off{_OR}",
        )
    else:
        yield error(
            f"{_of(waiting)} in {_queues(waiting)}, {nothing}: `cronhare up` has ended, or does "
            "not serve it",
            f"start `{start_up(seen.jobs)}`; if it runs, {have_up_serve(_names(waiting))}{_OR}",
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
    if not (runs := seen.activity.awaited):
        return
    read = {
        (node.source, node.digest) for node in alive(seen.activity.nodes, seen.now) if node.digest
    }
    cure = (
        "every worker has this file by now: a task that it has runs within a minute; add one "
        "that it has not, or cancel the run (`cronhare executions cancel ID`)"
        if seen.file is not None and read == {(seen.file.source, seen.file.digest)}
        else "reload the workers whose jobs file is older (systemctl reload, kill -HUP; "
        "under nohup restart them)"
    )
    wait = "waits for a worker that has its" if runs == 1 else "wait for workers that have their"
    yield warning(
        f"{counted(runs, 'run')} {wait} task; without one they fail for good within "
        f"{TASK_WAIT // timedelta(minutes=1)} minutes",
        f"{cure}; `cronhare executions list --state retrying` has the runs",
    )


#: How a breaker that is not closed is called, and what becomes of a failure then.
_NOT_CLOSED: Final = {
    BreakerState.OPEN: ("open", "what fails is not tried again"),
    BreakerState.HALF_OPEN: (
        "half open",
        "one retry is let through as a probe, what fails beside it is not tried again",
    ),
}


@RUNS.rule("tasks")
def breakers_that_are_not_closed(seen: Seen) -> Said:
    for state, (called, consequence) in _NOT_CLOSED.items():
        names = [each.said for each in seen.activity.breakers if each.state(seen.now) is state]
        if names:
            verb = "is" if len(names) == 1 else "are"
            task = quote(names[0]) if len(names) == 1 else "TASK"
            yield warning(
                f"The circuit {plural(len(names), 'breaker')} of {named(names)} {verb} {called}: "
                f"{consequence}",
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


# Targets of events


@TARGETS.rule("notify")
def cannot_be_told(seen: Seen) -> Said:
    """A worker's environment may have more than this shell's."""
    if seen.settings is None:
        return
    there = "where a worker or `cronhare up` runs; fine if it is set there"
    for name, why in untellable(seen.subscriptions, has_mail=seen.settings.has_mail).items():
        what = f"notify.{name} cannot be told from here: {why}"
        if isinstance(seen.subscriptions.targets[name].means, ByEmail):
            yield warning(what, f"set CRON_SMTP_URL=smtp://user:password@host:587 {there}")
        else:
            yield note(what, f"set it {there}")


#: Characters of the reason why a target was not told.
_LONGEST_REASON = 200


@TARGETS.rule("notify")
def not_told(seen: Seen) -> Said:
    """Targets that were given up; not those that the file at hand has no more."""
    of_file = seen.subscriptions
    untold = [
        each
        for each in seen.activity.untold
        if each.source != of_file.source or of_file.target(each.name) is not None
    ]
    for target in untold[:NAMES_TOLD]:
        yield warning(
            _told_last(target),
            f"mend that; `cronhare alerts test {quote(target.name)}` tries it at once. Of alerts "
            "that hold it is told anew within an hour or so; `cronhare events list --state "
            "given-up` has what it was not told of",
        )
    if rest := len(untold[NAMES_TOLD:]):
        what = f"{counted(rest, 'other target')} were not told either"
        cure = "`cronhare events list --state given-up` has them"
        yield warning(what, cure, stands_for=rest)


def _told_last(target: UntoldTarget) -> str:
    at = f", of the last one at {say_moment(target.last_at)}" if target.last_at else ""
    why = f": {target.error[:_LONGEST_REASON]}" if target.error else ""
    return (
        f"notify.{shown(target.name)} of {shown(target.source)} was not told of "
        f"{counted(target.events, 'event')}{at}{why}"
    )
