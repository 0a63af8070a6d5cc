"""One attempt of an app's task: its parameters, its context, its call, its report.

Run as `python -m cronhare.entrypoints.python.calling MODULE:APP TASK [FOLDER]` this is the executor
`process`. The interpreter of an app (zygote.py) does the same in each child that it forks.
"""

import atexit
import contextlib
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
from .context import Cancelled, Context, Snooze
from .loading import load, shortened
from .tasks import Task

_WHY = "the attempt is to end: its time limit, a cancel, or a shutdown"


def perform(load_app: Callable[[], App], name: str) -> int:
    """Run an attempt and report it; give the exit status, below zero for a signal to die of."""
    try:
        return task.perform(lambda: _call(find(load_app(), name)))
    except SystemExit as end:
        return _status(end)
    except Cancelled as end:
        print(shortened(end), file=sys.stderr)  # noqa: T201 - where it was, for its output
        return -signal.SIGTERM
    except BaseException as end:  # noqa: BLE001 - as an interpreter ends of it
        print(shortened(end), file=sys.stderr)  # noqa: T201 - as above
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def find(app: App, name: str) -> Task[..., Any]:
    """Find a task by its name, or by one that it had before.

    Raises:
        PermanentError: the app has no such task.
    """
    for each in (app.tasks.get(name), *app.tasks.values()):
        if each is not None and name in (each.name, *each.aliases):
            return each
    known = ", ".join(sorted(app.tasks)) or "none"
    raise task.PermanentError(f"app {app.name} has no task {name}; it has: {known}", code="NO_TASK")


def context() -> Context:
    """Make the context of this process's attempt, by its variables."""
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


def _call(found: Task[..., Any]) -> object:
    arguments, ctx = found.signature.arguments(task.params()), context()
    given = (ctx,) if found.signature.takes_context else ()
    signal.signal(signal.SIGTERM, partial(_cancel, ctx))
    result = found.function(*given, **arguments)
    if isinstance(result, Coroutine):
        result = _run(result, ctx)
    if isinstance(result, Snooze):
        task.snooze(result.seconds)
        return None
    return result


def _cancel(ctx: Context, *_: object) -> None:
    """Have the task end: once, so that what it does then is not disturbed."""
    if not ctx.cancelled:
        ctx.cancelled = True
        raise Cancelled(_WHY)


def _run(coroutine: Coroutine[Any, Any, object], ctx: Context) -> object:
    """Run a coroutine; SIGTERM cancels it, as nothing may be raised within the loop itself."""
    import asyncio  # noqa: PLC0415 - few tasks that are run here are async

    async def cancellable() -> object:
        cancel = asyncio.current_task().cancel  # type: ignore[union-attr] # this is one

        def stop() -> None:
            if not ctx.cancelled:
                ctx.cancelled = True
                cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        return await coroutine

    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError as error:
        if ctx.cancelled:
            raise Cancelled(_WHY).with_traceback(error.__traceback__) from None
        raise


def _status(end: SystemExit) -> int:
    if isinstance(end.code, int):
        return end.code & 0xFF
    if end.code is not None:
        print(end.code, file=sys.stderr)  # noqa: T201 - as an interpreter does
    return 0 if end.code is None else 1


def leave(status: int) -> NoReturn:
    """End this process as an interpreter ends, but for taking its objects apart."""
    try:
        threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - waits for threads
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no public name for it
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        if status < 0:
            os.kill(os.getpid(), -status)
    finally:
        os._exit(abs(status))


def main(place: str, name: str, folder: str = "") -> NoReturn:
    """Run an attempt; the app's module is looked for in *folder* first."""
    if folder:
        sys.path.insert(0, folder)
    leave(perform(partial(load, place), name))


if __name__ == "__main__":
    main(*sys.argv[1:])
