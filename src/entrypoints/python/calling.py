"""One attempt of an app's task: its parameters, its context, its call, its report.

Run as `python -m cronhare.entrypoints.python.calling MODULE:APP TASK [FOLDER]` this is the executor
`process`. The interpreter of an app (zygote.py) does the same in each child that it forks.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn

from cronhare import task

from .app import App
from .loading import load, shortened
from .tasks import Task
from .words import Cancelled, Context, Snooze

_WHY = "the attempt is to end: its time limit, a cancel, or a shutdown"


class _Stop:
    """What SIGTERM does: once it raises in the task, around that it ends the process.

    One object for all attempts, so that a child of an interpreter has its handler when it begins.
    """

    def __init__(self) -> None:
        self.ctx: Context | None = None
        self.in_task = self.asked = False

    def __call__(self, *_: object) -> None:
        if not self.in_task:
            die_of(signal.SIGTERM)
        if self.ask():
            raise Cancelled(_WHY)

    def ask(self) -> bool:
        """Note that the task is to end; False if it knows."""
        knew, self.asked = self.asked, True
        if self.ctx is not None:
            self.ctx.cancelled = True
        return not knew


_stop = _Stop()


def listen() -> None:
    signal.signal(signal.SIGTERM, _stop)


def perform(load_app: Callable[[], App], name: str) -> int:
    """Run an attempt and report it; give the exit status, below zero for a signal to die of."""
    try:
        return task.perform(lambda: call(find(load_app(), name), task.params()))
    except BaseException as end:  # noqa: BLE001 - as an interpreter ends of it
        return status_of(end)


def find(app: App, name: str) -> Task[..., Any]:
    """Find a task by its name, or by one that it had before.

    Raises:
        PermanentError: the app has no such task.
    """
    for each in app.tasks.values():
        if name in (each.name, *each.aliases):
            return each
    known = ", ".join(sorted(app.tasks)) or "none"
    raise task.PermanentError(f"app {app.name} has no task {name}; it has: {known}", code="NO_TASK")


def context() -> Context:
    return Context(
        due_at=task.due_at() or datetime.now(UTC),
        attempt=task.attempt(),
        key=task.execution_key() or "",
        fence=task.fence(),
        missed=task.missed(),
        previous_success=task.previous_success(),
        schedule=task.schedule(),
        execution_id=task.execution_id(),
        on_report=task.progress,
    )


def call(found: Task[..., Any], params: object) -> object:
    """Call a task in this process, and give what it returns; one that is async is run."""
    arguments = found.signature.arguments(params)
    _stop.ctx = context() if found.signature.takes_context else None
    given = () if _stop.ctx is None else (_stop.ctx,)
    _stop.in_task = True
    try:
        result = found.function(*given, **arguments)
        if result is None:
            return None
        if isinstance(result, Coroutine):
            result = _run(result)
    finally:
        _stop.in_task = False
    if isinstance(result, Snooze):
        task.snooze(result.seconds)
    return result


def _run(coroutine: Coroutine[Any, Any, object]) -> object:
    """Run a coroutine; SIGTERM cancels it, as nothing may be raised within the loop itself."""
    import asyncio  # noqa: PLC0415 - few tasks that are run here are async

    async def cancellable() -> object:
        cancel = asyncio.current_task().cancel  # type: ignore[union-attr] # this is one
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: _stop.ask() and cancel())
        return await coroutine

    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError as error:
        if _stop.asked:
            raise Cancelled(_WHY).with_traceback(error.__traceback__) from None
        raise
    finally:
        listen()  # the loop has taken its own handler with it


def status_of(end: BaseException) -> int:
    """Give the exit status of what passes `except Exception`, below zero for a signal."""
    if isinstance(end, SystemExit):
        if isinstance(end.code, int):
            return end.code & 0xFF
        if end.code is not None:
            print(end.code, file=sys.stderr)  # noqa: T201 - as an interpreter does
        return 0 if end.code is None else 1
    print(shortened(end), file=sys.stderr)  # noqa: T201 - where it was, for its output
    return -signal.SIGTERM if isinstance(end, Cancelled) else 1


def leave(status: int) -> NoReturn:
    """End this process as an interpreter ends, but for taking its objects apart."""
    try:
        threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - it waits for them
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no public name for it
        sys.stdout.flush()
        sys.stderr.flush()
        if status < 0:
            die_of(-status)
    finally:
        os._exit(status)


def die_of(signum: int) -> None:
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


def main(place: str, name: str, folder: str = "") -> NoReturn:
    """Run an attempt; the app's module is looked for in *folder* first."""
    if folder:
        sys.path.insert(0, folder)
    listen()
    leave(perform(partial(load, place), name))


if __name__ == "__main__":
    main(*sys.argv[1:])
