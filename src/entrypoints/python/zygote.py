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
import select
import signal
import socket
import sys
import warnings
from typing import NoReturn

from cronhare import task
from cronhare.adapters.process import warden
from cronhare.adapters.process.warden import Frame

from . import calling
from .app import App
from .loading import ImportFailed, Watch, load
from .reused import ReusedChild

#: Variables that are for this process: see `_start` in adapters/process/apps.py.
_OURS = ("CRON_PARAMS_FILE", "LD_BIND_NOW")
_ADVICE = (
    "which no fork can share. Do that within the tasks, or at its first use. Until then they run "
    "as processes of their own, which import the app each time"
)
#: What a whole service is told at its end: the worker decides what becomes of its attempts.
_OF_SERVICES = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def main(inherited: str, folder: str, place: str) -> None:
    """Run as `python -m cronhare.entrypoints.python.zygote SOCKET FOLDER MODULE:APP`."""
    control = warden.set_up_descriptors(int(inherited))
    for ours in _OURS:
        os.environ.pop(ours, None)
    warden.prctl(warden.PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # an import may hang
    if select.select([control], [], [], 0)[0]:  # the worker died before we asked
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _OF_SERVICES)
    calling.listen()
    try:
        with Watch(place) as watch:
            app = load(place)
            _warm(app)
    except ImportFailed as error:
        _tell(control, {"failed": str(error)})
        return
    if (numpy := sys.modules.get("numpy.random")) is not None:
        os.register_at_fork(after_in_child=numpy.seed)  # else all draw the same
    _try_out()
    if faults := watch.faults():
        _tell(control, {"unsafe": f"{' and '.join(faults)}, {_ADVICE}"})
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, nobody learns of an end
    sys.stdout.flush()
    gc.collect()
    child = _Child(app, control)
    _tell(control, {"ready": True})
    warden.serve(control, folder=folder, become=child)


def _tell(control: socket.socket, frame: Frame) -> None:
    with contextlib.suppress(ConnectionError):  # the worker is gone: so are we, soon
        control.sendall(warden.pack(frame))


def _warm(app: App) -> None:
    for each in app.tasks.values():
        with contextlib.suppress(Exception):  # its run will tell
            each.signature.convert({})
        if inspect.iscoroutinefunction(each.function):
            from . import coroutines  # noqa: F401, PLC0415 - an app may have no async tasks
    import json  # noqa: F401, PLC0415 - of `cronhare.task`
    import traceback  # noqa: F401, PLC0415 - likewise


def _try_out() -> None:
    """Fork once for nothing: some libraries, as OpenBLAS, end their threads before a fork."""
    with warnings.catch_warnings(action="ignore"):  # of threads, which we tell better
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


class _Child:
    """The last step of a child: it calls the task that its frame names, and ends."""

    def __init__(self, app: App, control: socket.socket) -> None:
        """Note what the import has left, which a child goes on with."""
        self._app = app
        # All but the app's: those of the warden, and what it was sent for this child.
        apps = sorted(_descriptors() - {control.fileno()})
        ends = [*apps[1:], os.sysconf("SC_OPEN_MAX")]
        self._to_close = [(fd + 1, end) for fd, end in zip(apps, ends, strict=True) if fd + 1 < end]

    def __call__(self, frame: Frame) -> NoReturn:
        status = 1
        try:
            for first, end in self._to_close:
                os.closerange(first, end)
            # Else it could not read about itself in /proc; and see `kill_orphans`.
            warden.prctl(warden.PR_SET_DUMPABLE, 1, 0, 0, 0)
            _add_variables(frame["env"])
            match frame.get("kept"):
                case "pool":
                    status = ReusedChild(self._app).serve()
                case "async":
                    from .coroutines import Coroutines  # noqa: PLC0415 - see `_warm`

                    status = Coroutines(self._app).serve()
                case None:
                    task.begin_anew(warden.IPC_FD)
                    status = calling.perform(lambda: self._app, frame["task"])
        except BaseException:  # noqa: BLE001 - a fault of ours
            sys.excepthook(*sys.exc_info())
        finally:
            calling.leave(status)


def _add_variables(added: dict[bytes, bytes]) -> None:
    """Do what `os.environb.update` does, with fewer pages touched."""
    os.environ._data.update(added)  # type: ignore[attr-defined] # noqa: SLF001 - see reused.py
    putenv = os.putenv
    for name, value in added.items():
        putenv(name, value)


def _descriptors() -> set[int]:
    found = set()
    for fd in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - numbers
        with contextlib.suppress(OSError):  # that of the list itself
            os.fstat(fd)
            found.add(fd)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
