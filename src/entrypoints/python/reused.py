"""A child of an app's interpreter that is used again: one run at a time (executor `pool`).

Descriptor 0 is a socket to the worker. Frames are written as a warden's. Descriptor 3 is a queue,
whose packets are runs, each a frame as `marshal` writes it; of a large one it has `LARGE`, and the
socket has the frame. Only what has been taken from it begins: the worker may take the others back.

    worker → child   {"run": id, "task": name, "params": JSON, "env": {…}, "per_child": n | null}
                     {"go": true} after an end with "printed", once that has been read
    child → worker   {"pid": n}, at first
                     {"report": id, "lines": messages as of an IPC pipe}
                     {"ended": id, …} as a warden says of a process, with the last "lines";
                     "printed" if there is output that has not been read;
                     "dirt" is what the run has left behind, "threads" that others than the main
                     one go on, "waited" that it did not work all the time; after "last" no run is
                     taken

A run that is to end is sent a SIGTERM, and its child takes no other: a signal may come late.
"""

import _signal  # type: ignore[import-not-found] # `signal` without enums, which take longer than the rest
import array
import contextlib
import fcntl
import marshal
import os
import random
import resource
import signal
import socket
import sys
import termios
import threading
import time
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrlimit, getrusage, struct_rusage

from cronhare import task
from cronhare.adapters.process.warden import (
    IPC_FD,
    LARGE,
    LARGEST_PACKET,
    MOST_AGE,
    MOST_GROWTH,
    Frame,
    Unpacker,
    pack,
)

from . import calling
from .app import App

_RECEIVE = 1 << 16
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: The limits of a process that a task is likely to change; to look at all takes longer.
_LIMITS = (
    resource.RLIMIT_AS,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
)
_CHANGES = (
    "closed or replaced descriptors that are not its own",
    "changed the working directory",
    "changed the umask",
    "changed how signals are handled",
    "changed the limits of its process",
    "replaced os.environ",
    "left a timer running",
)
_unread = array.array("i", [0])


def take_socket() -> socket.socket:
    """Take the socket to the worker from descriptor 0, which a task reads as empty from now on."""
    line = _take(0)
    line.sendall(pack({"pid": os.getpid()}))
    return line


def _take(fd: int) -> socket.socket:
    taken = socket.socket(fileno=os.dup(fd))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)
    os.close(null)
    return taken


class ReusedChild:
    """Runs tasks of *app*, until the worker closes its end or a run leaves something behind."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._line, self._queue = take_socket(), _take(IPC_FD)
        self._unpacker = Unpacker()
        self._pid = os.getpid()
        self._run = 0
        self._runs = 0
        self._lines = b""
        self._given: task.Given | None = None
        task.ask(lambda: self._given)
        self._added: dict[str, str] = {}
        self._bare = dict(_environment())
        self._wanted = dict(self._bare)
        self._ends_at = time.monotonic() + MOST_AGE * random.uniform(0.8, 1.2)  # noqa: S311 - spread
        self._streams = sys.stdout, sys.stderr
        self._peak = os.open("/proc/self/clear_refs", os.O_WRONLY)
        self._remains = Remains(self._line.fileno(), self._queue.fileno())

    def serve(self) -> int:
        while packet := self._queue.recv(LARGEST_PACKET):
            frame = self._receive() if packet == LARGE else marshal.loads(packet)  # noqa: S302 - as of a warden
            if frame is None:
                break
            status, goes_on = self._perform(frame)
            if not goes_on:
                return status
        return 0

    def _receive(self) -> Frame | None:
        """Wait for a frame on the socket; None if the worker has closed it."""
        chunk = b""  # it may be here already
        while (frame := next(self._unpacker.feed(chunk), None)) is None:
            if not (chunk := self._line.recv(_RECEIVE)):
                break
        return frame

    def _perform(self, frame: Frame) -> tuple[int, bool]:
        """Perform a run; give its exit status, and whether there may be others."""
        self._run, self._lines = frame["run"], b""
        self._runs += 1
        self._set_environment(frame["env"])
        self._given = task.Given(frame["env"], frame["params"], self._report)
        with contextlib.suppress(OSError):
            os.write(self._peak, b"5")  # its peak of memory is counted from here
        before = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
        status = calling.perform(lambda: self._app, frame["task"])
        if os.getpid() != self._pid or status < 0:  # a fork that the task let go on; or its end
            return status, False
        _join_threads()
        for stream in {*self._streams, sys.stdout, sys.stderr}:
            with contextlib.suppress(Exception):
                stream.flush()
        sys.stdout, sys.stderr = self._streams
        left_running, dirt, grown = self._remains.settle(frame["task"])
        after = used, _ = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
        is_last = (
            dirt is not None
            or grown > MOST_GROWTH
            or self._runs >= (frame["per_child"] or self._runs + 1)
            or time.monotonic() >= self._ends_at
        )
        ended = {
            "ended": self._run,
            "status": status << 8,
            "signalled": False,
            "left_running": left_running,
            "max_rss": used.ru_maxrss * 1024,
            "cpu": sum(_cpu(now) - _cpu(was) for now, was in zip(after, before, strict=True)),
            "failure": None,
            "lines": self._lines,
            "printed": _has_unread(1) or _has_unread(2),
            "dirt": dirt,
            "threads": self._remains.threads > 1,
            "waited": used.ru_nvcsw > before[0].ru_nvcsw,
            "last": is_last,
        }
        try:
            self._line.sendall(pack(ended))
            if ended["printed"] and not is_last:
                return 0, self._receive() is not None
        except OSError:  # the task has closed it: our own end tells of the run's
            return status, False
        return 0, not is_last

    def _report(self, line: bytes) -> None:
        if line.startswith(b'{"finish"'):  # the end follows at once
            self._lines += line
        else:
            with contextlib.suppress(OSError):
                self._line.sendall(pack({"report": self._run, "lines": line}))

    def _set_environment(self, added: dict[str, str]) -> None:
        """Have what the interpreter has, and what is *added*, whatever the last run made of it."""
        before, self._added = self._added, added
        if added.keys() != before.keys():
            before, self._wanted = {}, dict(self._bare)
        data, wanted = _environment(), self._wanted
        for name, value in added.items():
            if before.get(name) != value:
                key = os.fsencode(name)
                wanted[key] = data[key] = os.fsencode(value)
                os.putenv(key, wanted[key])
        if data != wanted:  # the last run has made something of it
            for key in data.keys() - wanted.keys():
                os.unsetenv(key)
                del data[key]
            for key, changed in wanted.items():
                if data.get(key) != changed:
                    os.putenv(key, changed)
                    data[key] = changed


class Remains:
    """What a run leaves behind in its process, beside what was there before it.

    Connections and threads are what a pool is for: those of a task's first run in this process may
    stay. What a later run of it adds to them is a leak.
    """

    def __init__(self, *ours: int) -> None:
        self._fds = 0, 1, 2, *ours
        self._stat = os.open("/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._known: set[str] = set()
        self._umask = os.umask(0o022)
        os.umask(self._umask)
        self._environ = os.environ
        self.threads, masks, self._most = self._status()
        # Those with a handler: what the others do is in the masks.
        caught = int(masks[2], 16)
        self._caught = [number for number in range(1, signal.NSIG) if caught >> number - 1 & 1]
        self._state = self._now(masks)
        self._descriptors = _count_descriptors()

    def settle(self, name: str) -> tuple[int, str | None, int]:
        """After a run: kill its processes; say how many, what else it left, and our growth."""
        killed, dirt = 0, list[str]()
        try:
            killed = _kill_children()
            threads, masks, rss = self._status()
            descriptors = _count_descriptors()
            state = self._now(masks)
            if state != self._state:
                changes = zip(_CHANGES, self._state, state, strict=True)
                dirt += [what for what, was, is_now in changes if is_now != was]
            if name in self._known:
                for what, now, before in (
                    ("a thread", threads, self.threads),
                    ("an open file or connection", descriptors, self._descriptors),
                ):
                    if now > before:
                        dirt.append(f"left {what} more than before ({now}, {before} before)")
        except (OSError, ValueError, IndexError) as error:
            return killed, f"left a process that cannot be used again: {error}", 0
        self._known.add(name)
        self.threads, self._descriptors = threads, descriptors
        return killed, " and ".join(dirt) or None, rss - self._most

    def _status(self) -> tuple[int, list[bytes], int]:
        """Give the threads, the signals blocked, ignored and caught, and the bytes held."""
        fields = os.pread(self._stat, 4096, 0).rpartition(b")")[2].split()
        return int(fields[17]), fields[29:32], int(fields[21]) * _PAGE

    def _now(self, masks: list[bytes]) -> tuple[object, ...]:
        """Give what no run may change, each with its name in `_CHANGES`."""
        return (
            [_identity(fd) for fd in self._fds],
            os.getcwd(),  # noqa: PTH109 - hot
            os.umask(self._umask),
            (masks, [_signal.getsignal(number) for number in self._caught]),
            [getrlimit(each) for each in _LIMITS],
            os.environ is self._environ,
            signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        )


def _cpu(used: struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def _has_unread(fd: int) -> bool:
    """Whether a pipe has something that the worker is to read; it need not look at an empty one."""
    try:
        fcntl.ioctl(fd, termios.FIONREAD, _unread)
    except OSError:  # the task has made something else of it
        return True
    return _unread[0] > 0


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _count_descriptors() -> int:
    folder = "/proc/self/fd"
    # Linux 6.2 says the number as the folder's size.
    return os.stat(folder).st_size or len(os.listdir(folder))  # noqa: PTH116, PTH208 - hot


def _join_threads() -> None:
    """Wait for threads as an interpreter does at its end; executors' wait for more work."""
    if threading.active_count() == 1:
        return
    from concurrent.futures.thread import _threads_queues  # noqa: PLC0415 - only where there are

    for thread in threading.enumerate():
        if not (thread is threading.current_thread() or thread.daemon or thread in _threads_queues):
            thread.join()


def _kill_children() -> int:
    """Kill all descendants, as they are our children once their parents have ended; count them."""
    running: set[int] | None = None
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return len(running or ())
        children = _children()
        running = children if running is None else running
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(-1, 0)


def _children() -> set[int]:
    found = set[int]()
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - names
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/children") as file:  # noqa: PTH123 - as above
            found.update(map(int, file.read().split()))
    return found


def _environment() -> dict[bytes, bytes]:
    """The variables as the C library has them: to compare them costs next to nothing so."""
    return os.environ._data  # type: ignore[attr-defined, no-any-return] # noqa: SLF001
