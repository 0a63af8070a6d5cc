"""From a `[tasks.NAME]` table to a task."""

from collections.abc import Iterator, Sequence

from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.task import (
    DEFAULT_TIMEOUT,
    Task,
    TaskRef,
    TaskType,
    assigned_number,
    fault_of_own_type,
)

from .http_calls import read_call
from .policies import Policies
from .reminders import read_reminder
from .schema import DefaultsTable, TaskTable


def read_task(
    name: str, table: TaskTable, policies: Policies, source: str, faults: list[Fault]
) -> Task:
    """Make a task; its working directory is the file's folder, or relative to it."""
    policy = policies.read(table, policies.of_class(table.class_, faults), faults)
    reminder = read_reminder(table, faults)
    kind = table.type or (TaskType.WORKER if reminder is None else TaskType.REMINDER).value
    if (problem := fault_of_own_type(kind)) is not None:
        faults.append(Fault("type", problem))
    http = None if reminder else read_call(table, faults)
    command = () if reminder else tuple(table.command or ())
    if reminder is None and http is None and not command:
        faults += _without_work(table, faults)
        command = ("-",)
    elif command and http is None:
        faults += _faults_of_command(command)
        faults += faults_of_surroundings(table)
    folder, given = policies.folder, policies.usual.under(table)
    return Task(
        name=name,
        source=source,
        ref=TaskRef(kind, table.id or assigned_number(source, name)),
        command=() if http else command,
        http=http,
        reminder=reminder,
        timeout=policy.timeout or DEFAULT_TIMEOUT,
        cwd=folder / given.cwd if given.cwd else folder,
        env=given.env,
        pass_env=given.passed,
        user=table.user,
        topics=tuple(dict.fromkeys(table.topics or ())),
        task_class=table.class_,
        policy=policy,
    )


def _without_work(table: TaskTable, faults: Sequence[Fault]) -> Iterator[Fault]:
    """Say that it has nothing to do, unless what it has is at fault."""
    tried = {"command", "url", "remind"}
    if table.url is None and not tried & {fault.field for fault in faults}:
        yield Fault("command", "is missing; give a command, a url, or remind")


def _faults_of_command(command: Sequence[str]) -> Iterator[Fault]:
    """Find what no operating system could start."""
    if not command[0]:
        yield Fault("command", "its first text names the program, and is empty")
    yield from _nul("command", command)


def _nul(field: str, texts: Sequence[str]) -> Iterator[Fault]:
    if any("\0" in text for text in texts):
        yield Fault(field, "has a NUL character, which no program can be given")


def faults_of_surroundings(table: DefaultsTable) -> Iterator[Fault]:
    """Find folders and variables that no operating system could give to a program."""
    yield from _nul("cwd", [table.cwd or ""])
    yield from _nul("env", [*table.env, *table.env.values()])
    yield from _nul("pass_env", table.passed)
    for name in table.env:
        if not name or "=" in name:
            yield Fault("env", f"{name!r} cannot name a variable")
