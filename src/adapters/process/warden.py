"""The warden: the small process that forks the tasks of one worker, reaps them and buries the rest.

It is a process of its own because a fork costs what its parent weighs, because a child must die
with its parent even when that one is killed by SIGKILL, and because whoever reaps must never be
busy with anything else. It runs by path (`python -I -S warden.py`), so it imports nothing of
cronhare and as little as possible of the standard library.

How nothing is left behind: the warden is a *subreaper*, and so is the main process of each task.
While that one lives, whatever its descendants do (setsid, double fork), they stay below it. When
it ends, the kernel hands what it leaves to the warden. So a child of the warden is either the
main process of a running attempt or a remnant of one that is over, and remnants are killed on
sight: no marks to look for, none that a task could remove.

Frames, both ways, are a length (4 bytes, big endian) and JSON:

    worker → warden   {"spawn": id, "argv": […], "env": {…}, "cwd": path | null} and the
                      descriptors for 0, 1, 2 and 3; {"kill": id, "signal": n}
    warden → worker   {"started": id, "pid": n}, then {"ended": id, "status": n, …}
"""

import contextlib
import ctypes
import errno
import fcntl
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

#: What a task finds at its descriptors: parameters, output, errors, and the IPC pipe. The last
#: has one digit because `dash` can redirect to no other.
DESCRIPTORS = 4
IPC_FD = 3

_LENGTH = struct.Struct("!I")
_CONTROL_FD = 10
_RECEIVE = 1 << 16

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: Looked up before any fork: between fork and exec the less happens the better.
_prctl = ctypes.CDLL(None).prctl
_prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)

Frame = dict[str, Any]


def pack(frame: Mapping[str, object]) -> bytes:
    """Make the bytes of a frame. Escaped surrogates carry what is not UTF-8 unharmed."""
    body = json.dumps(frame, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


class Unpacker:
    """Cuts a stream of bytes into frames.

    >>> unpacker, wire = Unpacker(), pack({"kill": 1}) + pack({"kill": 2})
    >>> list(unpacker.feed(wire[:7])), list(unpacker.feed(wire[7:]))
    ([], [{'kill': 1}, {'kill': 2}])
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Take in *chunk*; give every frame that is complete."""
        buffer = self._buffer
        buffer += chunk
        while len(buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                return
            body = bytes(buffer[_LENGTH.size : end])
            del buffer[:end]
            yield json.loads(body)


class _Attempt:
    """A main process, from its fork until nothing of it remains."""

    __slots__ = ("ended", "failure", "id", "pid", "remnants", "signalled")

    def __init__(self, id_: int, pid: int, failure: int) -> None:
        self.id = id_
        self.pid = pid
        self.failure = failure  # where the child says why it could not become the command
        self.signalled = False
        self.remnants: set[int] = set()
        self.ended: Frame = {}


class Warden:
    """The loop: requests come in, children end, reports go out."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._unpacker = Unpacker()
        self._descriptors: list[int] = []
        self._outbox = bytearray()
        self._running: dict[int, _Attempt] = {}  # by pid
        self._ending: list[_Attempt] = []
        self._doomed: set[int] = set()
        self._immortal: set[int] = set()
        self._leaving = False
        self._pid = os.getpid()
        self._children = _Children()
        self._poll = select.poll()
        self._wakeup = _wake_up_on_sigchld()
        self._parent = os.pidfd_open(os.getppid())

    def run(self) -> None:
        """Serve until the worker is gone, then until nothing that it started is left."""
        # Two signs of the worker's end: a process that it forked may hold its end of the socket.
        for fd in (self._control.fileno(), self._parent, self._wakeup):
            self._poll.register(fd, select.POLLIN)
        while not (self._leaving and self._all_gone()):
            for fd, event in self._poll.poll():
                if fd == self._wakeup:
                    os.read(fd, _RECEIVE)
                elif fd == self._parent:
                    self._leave()
                elif event & ~select.POLLOUT and not self._leaving:
                    self._receive()
            self._reap()
            self._flush()

    def _receive(self) -> None:
        space = socket.CMSG_SPACE(16 * DESCRIPTORS)
        try:
            chunk, ancillary, flags, _ = self._control.recvmsg(
                _RECEIVE, space, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return
        except ConnectionError:
            self._leave()
            return
        if flags & socket.MSG_CTRUNC:  # descriptors were dropped: nothing fits together any more
            raise OSError(errno.EMFILE, "no room for a task's descriptors")
        for _, _, data in ancillary:
            self._descriptors += memoryview(data).cast("i")
        for frame in self._unpacker.feed(chunk):
            self._obey(frame)
        if not chunk:
            self._leave()

    def _obey(self, frame: Frame) -> None:
        if "spawn" in frame:
            self._spawn(frame)
        else:
            self._kill(frame["kill"], frame["signal"])

    def _spawn(self, task: Frame) -> None:
        # A stream keeps descriptors and bytes in one order: these belong to this frame.
        fds, self._descriptors = self._descriptors[:DESCRIPTORS], self._descriptors[DESCRIPTORS:]
        failure, report = -1, -1
        try:
            failure, report = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            pid = os.fork()
        except OSError as error:
            self._send({"ended": task["spawn"], "failure": ["fork", error.errno]})
            _close(failure)
        else:
            if pid == 0:
                _become(task, fds, report, self._pid)
            self._running[pid] = _Attempt(task["spawn"], pid, failure)
            self._send({"started": task["spawn"], "pid": pid})
        _close(report, *fds)

    def _kill(self, id_: int, signum: int) -> None:
        for attempt in self._running.values():
            if attempt.id == id_ and not _is_over(attempt.pid):
                attempt.signalled = True
                _signal_group(attempt.pid, signum)
                if signum == signal.SIGTERM:  # a stopped process would not hear it
                    _signal_group(attempt.pid, signal.SIGCONT)

    def _reap(self) -> None:
        peek = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            while dead := os.waitid(os.P_ALL, 0, peek):
                self._bury(dead.si_pid)
        if self._ending or self._leaving:
            self._sweep()

    def _bury(self, pid: int) -> None:
        attempt = self._running.pop(pid, None)
        if attempt is not None:
            # Before the wait: until then nobody else can have this number.
            _signal_group(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        if attempt is not None:
            attempt.ended = {
                "ended": attempt.id,
                "status": status,
                "signalled": attempt.signalled,
                "max_rss": usage.ru_maxrss * 1024,
                "cpu": usage.ru_utime + usage.ru_stime,
                "failure": _read_failure(attempt.failure),
            }
            self._ending.append(attempt)

    def _sweep(self) -> None:
        """Kill what ended attempts left; report those of which nothing remains.

        A remnant's own children come to us when it dies, with a SIGCHLD that calls us again.
        """
        remnants = self._children.pids() - self._running.keys()
        self._immortal &= remnants
        fresh = {pid for pid in remnants - self._doomed - self._immortal if self._doom(pid)}
        self._doomed = remnants - self._immortal
        for attempt in self._ending:
            attempt.remnants = (attempt.remnants & self._doomed) | fresh
            if not attempt.remnants:
                self._send(attempt.ended | {"left": sorted(self._immortal)})
        self._ending = [attempt for attempt in self._ending if attempt.remnants]

    def _doom(self, pid: int) -> bool:
        """Kill a remnant and its group. False if we may not: it runs as another user."""
        try:
            os.kill(pid, signal.SIGKILL)
            group = os.getpgid(pid)
        except PermissionError:
            self._immortal.add(pid)
            return False
        if group != self._pid and group not in self._running:
            _signal_group(group, signal.SIGKILL)
        return True

    def _leave(self) -> None:
        if not self._leaving:
            self._leaving = True
            self._poll.unregister(self._control)
            self._poll.unregister(self._parent)
            for pid in self._running:
                _signal_group(pid, signal.SIGKILL)

    def _all_gone(self) -> bool:
        return not self._running and not self._doomed

    def _send(self, frame: Frame) -> None:
        self._outbox += pack(frame)

    def _flush(self) -> None:
        if self._leaving or not self._outbox:
            return
        try:
            sent = self._control.send(self._outbox, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            del self._outbox[:sent]
        except BlockingIOError:
            pass
        except ConnectionError:
            return  # its end shows on the way in
        self._poll.modify(self._control, select.POLLIN | (select.POLLOUT if self._outbox else 0))


class _Children:
    """Our children, dead ones that are not reaped yet included.

    Only we reap them, so that none can vanish from the list while it is read.
    """

    def __init__(self) -> None:
        self._own = os.getpid()
        try:
            self._list = os.open(f"/proc/self/task/{self._own}/children", os.O_RDONLY)
        except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
            self._list = -1

    def pids(self) -> set[int]:
        if self._list < 0:
            names = os.listdir("/proc")  # noqa: PTH208 - pathlib is heavy
            return {int(name) for name in names if self._is_ours(name)}
        text = b""
        while chunk := os.pread(self._list, _RECEIVE, len(text)):
            text += chunk
        return {int(pid) for pid in text.split()}

    def _is_ours(self, name: str) -> bool:
        if not name.isdigit():
            return False
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123 - pathlib is heavy
                return int(stat.read().rpartition(b")")[2].split()[1]) == self._own
        except (FileNotFoundError, ProcessLookupError):
            return False


def _become(task: Frame, fds: Sequence[int], report: int, warden: int) -> NoReturn:
    """In the child: turn into the command, or tell *report* at which step that failed."""
    step = "prepare"
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != warden:  # it died before we asked
            os._exit(1)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for target, fd in enumerate(fds):
            os.dup2(fd, target)  # all other descriptors close on exec
        step = "cwd"
        if task["cwd"] is not None:
            os.chdir(task["cwd"])
        step = "exec"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _exec(task["argv"], task["env"])
    except OSError as error:
        os.write(report, f"{step} {error.errno}".encode())
    except ValueError:  # a NUL in an argument
        os.write(report, f"{step} {errno.EINVAL}".encode())
    finally:
        os._exit(127)


def _exec(argv: list[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process; the name is looked up in the PATH that the command will see."""
    name = argv[0]
    if "/" in name:
        os.execve(name, argv, env)  # noqa: S606 - never a shell
    failure: OSError = FileNotFoundError(errno.ENOENT, "not in PATH")
    for folder in env.get("PATH", os.defpath).split(":"):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.F_OK):
            try:
                os.execve(path, argv, env)  # noqa: S606 - never a shell
            except PermissionError as error:  # as execvp: look further, but remember
                failure = error
    raise failure


def _is_over(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(leader: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(leader, signum)
        except ProcessLookupError:  # forked a moment ago, not yet a leader
            os.kill(leader, signum)


def _read_failure(fd: int) -> list[str | int] | None:
    try:
        step, _, number = os.read(fd, 64).decode().partition(" ")
    except BlockingIOError:
        return None
    finally:
        os.close(fd)
    return [step, int(number)] if step else None


def _close(*fds: int) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)


def _wake_up_on_sigchld() -> int:
    readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return readable


def _settle_signals() -> None:
    """Let our children begin with default signals, and stay when a whole service is told to stop.

    Blocked rather than ignored or handled: what reaches a child between fork and exec waits until
    it may take effect.
    """
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(signum) is not signal.SIG_DFL:
            signal.signal(signum, signal.SIG_DFL)
    stay = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    signal.pthread_sigmask(signal.SIG_SETMASK, stay)


def _settle_descriptors(inherited: int) -> socket.socket:
    """Keep the numbers that a task's descriptors take out of use for anything else."""
    control = fcntl.fcntl(inherited, fcntl.F_DUPFD_CLOEXEC, _CONTROL_FD)
    os.close(inherited)
    os.closerange(IPC_FD, _CONTROL_FD)
    if os.open(os.devnull, os.O_RDWR) != IPC_FD:
        sys.exit("cronhare: a warden needs its standard descriptors")
    return socket.socket(fileno=control)


def main() -> None:
    """Run as `python -I -S warden.py SOCKET FOLDER`; FOLDER holds parameters and goes with us."""
    control = _settle_descriptors(int(sys.argv[1]))
    _settle_signals()
    with open("/proc/self/comm", "w") as name:  # noqa: PTH123 - pathlib is heavy
        name.write("cronhare-warden")
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("cronhare: this kernel has no subreapers; tasks could leave processes behind")
    warden = Warden(control)
    gc.freeze()  # keeps collections from touching, and a fork from copying, what we loaded
    warden.run()
    import shutil  # noqa: PLC0415 - its weight only now

    shutil.rmtree(sys.argv[2], ignore_errors=True)


if __name__ == "__main__":
    main()
