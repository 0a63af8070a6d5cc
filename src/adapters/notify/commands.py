"""Commands and listeners: child processes that are given the event on standard input."""

from typing import Final

import msgspec

from cronhare.domain.environment import EVENT_VARIABLES
from cronhare.domain.lifecycle.events import OutboxRow
from cronhare.domain.retries.outcome import Ending
from cronhare.domain.schedules.notify import ByCommand, ByListener, Target, type_of
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.ports.events import NotDelivered
from cronhare.ports.runner import Invocation, TaskRunnerPort

#: Bytes of an event that fit into a variable; Linux takes 128 KiB.
_LARGEST_VARIABLE: Final = 64 * 1024

#: What calls a listener: it is imported in a process of its own, from the jobs file's folder.
_LISTEN: Final = (
    "import functools, importlib, json, sys; "
    "module, _, function = sys.argv[1].partition(':'); "
    "listener = functools.reduce(getattr, function.split('.'), importlib.import_module(module)); "
    "listener(json.load(sys.stdin))"
)


async def by_command(
    runner: TaskRunnerPort, target: Target, means: ByCommand, event: OutboxRow
) -> None:
    """Run a command; any end but exit status 0 is a failure.

    Raises:
        NotDelivered: see `NotifierPort`.
    """
    task = Task(
        name=target.name,
        ref=TaskRef("notify", 0),
        command=means.command,
        timeout=target.timeout,
        cwd=means.cwd,
        user=means.user,
        env=_variables(target, event),
    )
    invocation = Invocation(
        execution_id=event.execution_id or 0,
        execution_key=event.event_key,
        scheduler_id=event.scheduler_id,
        schedule_name=event.schedule_name,
        attempt=event.tries,
        deaths=event.tries - 1,
        due_at=event.occurred_at,
        fence=event.tries,
        task=task,
        params=msgspec.Raw(event.payload.encode()),
    )
    result = await runner.run(invocation)
    if result.outcome.ending is not Ending.SUCCEEDED:
        raise NotDelivered(result.outcome.in_brief)


async def by_listener(
    runner: TaskRunnerPort, target: Target, means: ByListener, event: OutboxRow
) -> None:
    """Call a function of Python in a process of its own; an exception is a failure.

    Raises:
        NotDelivered: see `NotifierPort`.
    """
    command = ByCommand(command=("python", "-c", _LISTEN, means.function), cwd=means.cwd)
    await by_command(runner, target, command, event)


def _variables(target: Target, event: OutboxRow) -> dict[str, str]:
    """Describe the event to a shell script; the whole of it only where it fits."""
    fits = len(event.payload.encode()) <= _LARGEST_VARIABLE
    whole = event.payload if fits else ""
    values = (type_of(event.event), event.event_key, target.name, event.schedule_name, whole)
    said = dict(zip(EVENT_VARIABLES, values, strict=True))
    return {name: text.replace("\0", "\u2400") for name, text in said.items()}
