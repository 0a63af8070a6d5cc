"""The interpreter of an app: imports it once, and forks a child for each attempt of its tasks.

It is a warden (adapters/process/warden.py) in a process that has the app: fence, limits, signals,
remnants and the frames to the worker are the same. Only the last step of a child differs: it calls
a task where the other becomes a command.

A fork has one thread of its parent, and shares its connections. So before the first one it is
proved that the import began no thread, opened no socket and started no process. The first frame is

    {"ready": true}     attempts may come
    {"unsafe": why}     this app's tasks have to be processes of their own
    {"failed": why}     the app cannot be imported

and after the last two this process ends.
"""

import contextlib
import gc
import inspect
import os
import signal
import socket
import sys
from typing import NoReturn

from cronhare import task
from cronhare.adapters.process import warden
from cronhare.adapters.process.warden import Frame

from . import calling
from .app import App
from .loading import ImportFailed, Watch, load

_ADVICE = (
    "which no fork can share. Do that within the tasks, or at its first use. Until then they run "
    "as processes of their own, which import the app each time"
)
#: What a whole service is told at its end: the worker decides what becomes of its attempts.
_OF_SERVICES = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def main(inherited: str, folder: str, place: str) -> None:
    """Run as `python -m cronhare.entrypoints.python.zygote SOCKET FOLDER MODULE:APP`."""
    control = warden.set_up_descriptors(int(inherited))
    os.environ.pop("CRON_PARAMS_FILE", None)  # by which our forks are known, see `kill_orphans`
    warden.prctl(warden.PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # an import may hang
    signal.pthread_sigmask(signal.SIG_BLOCK, _OF_SERVICES)
    try:
        with Watch() as watch:
            app = load(place)
            _warm(app)
    except ImportFailed as error:
        control.sendall(warden.pack({"failed": str(error)}))
        return
    if faults := watch.faults(place):
        control.sendall(warden.pack({"unsafe": f"{' and '.join(faults)}, {_ADVICE}"}))
        return
    sys.stdout.flush()
    gc.collect()
    child = _Child(app, control)
    control.sendall(warden.pack({"ready": True}))
    warden.serve(control, folder=folder, become=child)


def _warm(app: App) -> None:
    """Do once what each child would do for itself."""
    for each in app.tasks.values():
        with contextlib.suppress(Exception):  # its run will tell
            each.signature.convert({})
        if inspect.iscoroutinefunction(each.function):
            import asyncio  # noqa: F401, PLC0415 - an app without async tasks needs none
    import json  # noqa: F401, PLC0415 - of `cronhare.task`
    import traceback  # noqa: F401, PLC0415 - likewise


class _Child:
    """The last step of a child: it calls the task that its frame names, and ends."""

    def __init__(self, app: App, control: socket.socket) -> None:
        """Note what the import has left, which a child goes on with."""
        self._app = app
        self._handlers = {
            number: handler
            for number in signal.valid_signals()
            if (handler := signal.getsignal(number)) not in (signal.SIG_DFL, None)
        }
        # All but the app's: those of the warden, and what it was sent for this child.
        apps = sorted(_descriptors() - {control.fileno()})
        ends = [*apps[1:], os.sysconf("SC_OPEN_MAX")]
        self._to_close = [(fd + 1, end) for fd, end in zip(apps, ends, strict=True)]

    def __call__(self, frame: Frame) -> NoReturn:
        status = 1
        try:
            for first, end in self._to_close:
                os.closerange(first, end)
            # Else it could not read about itself in /proc; and see `kill_orphans`.
            warden.prctl(warden.PR_SET_DUMPABLE, 1, 0, 0, 0)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            os.environ.update(frame["env"])
            task.begin_anew()
            status = calling.perform(lambda: self._app, frame["task"])
        except BaseException:  # noqa: BLE001 - a fault of ours
            sys.excepthook(*sys.exc_info())
        finally:
            calling.leave(status)


def _descriptors() -> set[int]:
    found = set()
    for fd in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - numbers
        with contextlib.suppress(OSError):  # that of the list itself
            os.fstat(fd)
            found.add(fd)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
