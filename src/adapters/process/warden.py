"""The warden: a small process that starts the tasks of one worker, reaps them, buries the rest.

It is a process of its own because a fork costs what its parent weighs, because a child must die
with its parent even when that one is killed by SIGKILL, and because whoever reaps must never be
busy with anything else. It runs by path (`python -I -S warden.py`), so it imports nothing of
cronhare and as little as possible of the standard library.

How nothing is left behind: the warden is a *subreaper*, and so is the main process of each task.
While that one lives, whatever its descendants do (setsid, double fork), they stay below it. When
it ends, the kernel hands what it leaves to the warden. So a child of the warden is either the
main process of a running attempt or a remnant of one that is over, and remnants are killed on
sight: no marks to look for, none that a task could remove.

Every page that this process or its child writes to after a fork is a page fault, and some hundred
of them are most of what a task costs. So what happens for each task is written with few means: no
enums, no context managers, no wrappers of the standard library.

Frames, both ways, are a length (4 bytes, big endian) and an object as `marshal` writes it; both
ends are one interpreter:

    worker → warden   {"spawn": id, "argv": […], "env": {…}, "cwd": path | null,
                      "ids": [user, group, groups…] | null} and the
                      descriptors for 0, 1, 2 and 3; {"kill": id, "signal": n}; {"ping": true}
    warden → worker   {"started": id, "pid": n}, then {"ended": id, "status": n, …}; {"pong": true}

The interpreter of an app (entrypoints/python/zygote.py) is a warden too, whose children call a
task where these become a command: its frames have a `task` and no `argv`, and `env` as bytes.
"""

import contextlib
import ctypes
import errno
import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

#: A task's descriptors: parameters, stdout, stderr, and the IPC pipe. The last has one digit, as
#: `dash` can redirect to no other.
DESCRIPTORS = 4
IPC_FD = 3

#: A fault of the processor ends us even if its signal is blocked.
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP)

_LENGTH = struct.Struct("!I")
_CONTROL_FD = 10
_RECEIVE = 1 << 16

PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
PR_SET_DUMPABLE = 4
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAP_KILL = 5
#: Looked up here, so that less happens between fork and exec.
prctl = ctypes.PyDLL(None).prctl
prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
# The standard library's own makes enums, which costs the child.
_sigprocmask = ctypes.PyDLL(None).sigprocmask
_sigprocmask.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_SETMASK, _NO_SIGNALS = int(signal.SIG_SETMASK), bytes(128)

# As plain numbers: an enum's own arithmetic is Python, and slow.
_TO_RECEIVE = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
_TO_SEND = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_TRUNCATED = int(socket.MSG_CTRUNC)
_KILL, _TERM, _CONT = int(signal.SIGKILL), int(signal.SIGTERM), int(signal.SIGCONT)
_SPACE = socket.CMSG_SPACE(16 * DESCRIPTORS)
_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT

Frame = dict[str, Any]
#: Bytes of a run that a child of a pool is given as one packet; and what tells of a larger one.
LARGEST_PACKET, LARGE = 8 * 1024, b"-"
#: Bytes by which a child that is used again may grow before it is renewed, and seconds after which
#: it is.
MOST_GROWTH, MOST_AGE = 64 * 1024 * 1024, 3600.0
#: The last step of a child that is set up: it becomes what the frame asks for.
Become = Callable[[Frame], NoReturn]
_Command = tuple[str, str]


def pack(frame: Frame) -> bytes:
    """Encode a frame. Surrogates keep what is not UTF-8."""
    body = marshal.dumps(frame)
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
        buffer = self._buffer
        buffer += chunk
        while len(buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                return
            body = bytes(buffer[_LENGTH.size : end])
            del buffer[:end]
            yield marshal.loads(body)  # noqa: S302 - from our other end


class _Attempt:
    """A main process, from its fork until no descendant is left."""

    __slots__ = ("ended", "id", "pid", "remnants", "signalled", "task")

    def __init__(self, task: Frame, pid: int) -> None:
        self.task = task
        self.id = task["spawn"]
        self.pid = pid
        self.signalled = False
        self.remnants: set[int] = set()
        self.ended: Frame = {}


class Warden:
    """The loop: takes requests, reaps children, sends reports."""

    def __init__(
        self,
        control: socket.socket,
        vfork: "Vfork | None",
        become: Become,
    ) -> None:
        """Without *vfork* each child is forked, and then it is to *become* something."""
        self._control = control
        self._vfork = vfork
        self._become = become
        self._unpacker = Unpacker()
        self._descriptors: list[int] = []
        self._outbox = bytearray()
        self._is_stuck = False
        self._failures = _Failures()
        self._running: dict[int, _Attempt] = {}  # by pid
        self._ending: list[_Attempt] = []
        self._killed: set[int] = set()
        self._unkillable: set[int] = set()
        self._shutting_down = False
        self._pid = os.getpid()
        self._children = _Children()
        self._poll = select.poll()
        self._ends = _ends_of_children()
        self._parent = os.pidfd_open(os.getppid())

    def run(self) -> None:
        """Serve until the worker is gone, then until no process of its tasks is left."""
        # The parent as well as the socket, whose end a process that it forked may hold open.
        for fd in (self._control.fileno(), self._parent, self._ends):
            self._poll.register(fd, select.POLLIN)
        while not self._shutting_down or self._running or self._killed:
            for fd, event in self._poll.poll():
                if fd == self._ends:
                    os.read(fd, _RECEIVE)
                    self._reap()
                elif fd == self._parent:
                    self._shut_down()
                elif event & ~select.POLLOUT and not self._shutting_down:
                    # All that is there, so that less happens between two forks.
                    while self._receive():
                        pass
            if self._shutting_down:
                self._kill_remnants()
            self._flush()

    def _receive(self) -> bool:
        """Receive once and handle the frames; False if there was nothing."""
        try:
            chunk, ancillary, flags, _ = self._control.recvmsg(_RECEIVE, _SPACE, _TO_RECEIVE)
        except BlockingIOError:
            return False
        except ConnectionError:
            chunk, ancillary, flags = b"", [], 0
        if flags & _TRUNCATED:  # descriptors were dropped: they no longer match the frames
            raise OSError(errno.EMFILE, "no room for a task's descriptors")
        for _, _, data in ancillary:
            self._descriptors += memoryview(data).cast("i")
        for frame in self._unpacker.feed(chunk):
            self._handle(frame)
        if not chunk:
            self._shut_down()
        return bool(chunk)

    def _handle(self, frame: Frame) -> None:
        if "spawn" in frame:
            self._spawn(frame)
        elif "ping" in frame:
            self._send({"pong": True})
        else:
            self._kill(frame["kill"], frame["signal"])

    def _spawn(self, task: Frame) -> None:
        # The socket keeps descriptors and bytes in one order: these belong to this frame.
        fds, self._descriptors = self._descriptors[:DESCRIPTORS], self._descriptors[DESCRIPTORS:]
        try:
            pid = (self._vfork and self._vfork.start(task, fds)) or os.fork()
            if pid == 0:
                _set_up_child(task, fds, self._failures, self._pid, self._become)
        except OSError as error:
            self._send({"ended": task["spawn"], "failure": ["fork", error.errno]})
        else:
            self._running[pid] = _Attempt(task, pid)
            self._send({"started": task["spawn"], "pid": pid})
        for fd in fds:
            os.close(fd)

    def _kill(self, id_: int, signum: int) -> None:
        for attempt in self._running.values():
            if attempt.id == id_ and os.waitid(os.P_PID, attempt.pid, _PEEK) is None:  # it lives
                attempt.signalled = True
                _signal_group(attempt.pid, signum)
                if signum == _TERM:  # else a stopped process would not handle it
                    _signal_group(attempt.pid, _CONT)

    def _reap(self) -> None:
        try:
            while dead := os.waitid(os.P_ALL, 0, _PEEK):
                self._reap_one(dead.si_pid)
        except ChildProcessError:  # none is left
            pass
        if self._ending:
            self._kill_remnants()

    def _reap_one(self, pid: int) -> None:
        attempt = self._running.pop(pid, None)
        if attempt is None:
            os.waitpid(pid, 0)
            return
        left = None if attempt.signalled else self._count_left(pid)
        # Before the wait: until then the kernel does not reuse the number.
        _signal_group(pid, _KILL)
        _, status, usage = os.wait4(pid, 0)
        # A child that could not exec ended with 127: only then the pipe is read.
        failure = self._failures.of(pid) if status else None
        if failure is None and self._vfork is not None:
            self._vfork.learn(attempt.task)
        attempt.ended = {
            "ended": attempt.id,
            "status": status,
            "signalled": attempt.signalled,
            "left_running": left,
            "max_rss": usage.ru_maxrss * 1024,
            "cpu": usage.ru_utime + usage.ru_stime,
            "failure": failure,
        }
        self._ending.append(attempt)

    def _count_left(self, leader: int) -> int:
        """Count the processes that an ended main process leaves running, without their own.

        Those that have ended are zombies. Sessions tell them from what others leave just now.
        """
        known = self._killed | self._unkillable | self._running.keys() | {leader}
        others = {attempt.pid for attempt in (*self._running.values(), *self._ending)}
        return sum(
            os.waitid(os.P_PID, pid, _PEEK) is None and os.getsid(pid) not in others
            for pid in self._children.pids() - known
        )

    def _kill_remnants(self) -> None:
        """Kill the remnants of ended attempts; report the attempts without any.

        A remnant's children become ours when it dies, with a SIGCHLD that calls us again.
        """
        remnants = self._children.pids() - self._running.keys()
        self._unkillable &= remnants
        fresh = {
            pid for pid in remnants - self._killed - self._unkillable if self._kill_remnant(pid)
        }
        self._killed = remnants - self._unkillable
        for attempt in self._ending:
            attempt.remnants = (attempt.remnants & self._killed) | fresh
            if not attempt.remnants:
                self._send(attempt.ended | {"left": sorted(self._unkillable)})
        self._ending = [attempt for attempt in self._ending if attempt.remnants]

    def _kill_remnant(self, pid: int) -> bool:
        """Kill a remnant and its group; False if it runs as another user, so that we may not."""
        try:
            os.kill(pid, _KILL)
            group = os.getpgid(pid)
        except PermissionError:
            self._unkillable.add(pid)
            return False
        if group != self._pid and group not in self._running:
            _signal_group(group, _KILL)
        return True

    def _shut_down(self) -> None:
        if not self._shutting_down:
            self._shutting_down = True
            self._poll.unregister(self._control)
            self._poll.unregister(self._parent)
            for pid in self._running:
                _signal_group(pid, _KILL)

    def _send(self, frame: Frame) -> None:
        self._outbox += pack(frame)

    def _flush(self) -> None:
        if self._shutting_down or not self._outbox:
            return
        try:
            sent = self._control.send(self._outbox, _TO_SEND)
            del self._outbox[:sent]
        except BlockingIOError:
            pass
        except ConnectionError:
            return  # `_receive` sees the end
        if self._outbox or self._is_stuck:
            self._is_stuck = bool(self._outbox)
            events = select.POLLIN | (select.POLLOUT if self._is_stuck else 0)
            self._poll.modify(self._control, events)


class _Failures:
    """A pipe in which children report why they could not become their commands."""

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._said: dict[int, list[str | int]] = {}

    def report(self, step: str, number: int) -> None:
        os.write(self._writable, f"{os.getpid()} {number} {step}\n".encode())

    def of(self, pid: int) -> list[str | int] | None:
        try:
            for line in os.read(self._readable, _RECEIVE).decode().splitlines():
                child, number, step = line.split(maxsplit=2)
                self._said[int(child)] = [step, int(number)]
        except BlockingIOError:
            pass
        return self._said.pop(pid, None)


class Vfork:
    """Starts a command by `vfork.c`, where nothing that it needs can hang; see there for the gain.

    vfork stops us until the child has become the command, which no file system of a network may
    do to us. So it is for programs on this host's own disks, and whether one is, is looked up once
    it has run by a fork.
    """

    def __init__(self, library: str) -> None:
        """*library* is the path of `vfork.c` compiled, if there is any."""
        self._start: Any = None
        self._is_local: dict[_Command, bool] = {}
        self._pid = os.getpid()
        with contextlib.suppress(OSError):
            self._start = ctypes.PyDLL(library).start
            size, integers = ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)
            text = ctypes.c_char_p
            self._start.argtypes = (text, text, size, size, size, integers, ctypes.c_int)

    def start(self, task: Frame, fds: Sequence[int]) -> int:
        """Start a task and return its pid; 0 if it takes a fork, which also says what is wrong."""
        command = _command_of(task)
        if command is None or not self._is_local.get(command):
            return 0
        program = command[0]
        if "/" not in program:
            places = _places(*command)
            program = next((path for path in places if os.access(path, os.X_OK)), "")
        argv, env = task["argv"], task["env"]
        try:
            block = os.fsencode("\0".join((*argv, *map("=".join, env.items()), "")))
            path = os.fsencode(program)
        except ValueError:  # no process can have such an argument
            return 0
        numbers = (ctypes.c_int * DESCRIPTORS)(*fds)
        pid: int = self._start(path, block, len(block), len(argv), len(env), numbers, self._pid)
        return pid

    def learn(self, task: Frame) -> None:
        """Note whether a command that has run may be started by vfork."""
        command = _command_of(task)
        if command is not None and self._start is not None and command not in self._is_local:
            self._is_local[command] = False
            with contextlib.suppress(OSError):
                self._is_local[command] = _is_local(_places(*command))


def _command_of(task: Frame) -> _Command | None:
    """What is looked up where; None for what takes a fork, as it goes elsewhere or is another."""
    if task["cwd"] is None and task["ids"] is None:
        return task["argv"][0], task["env"].get("PATH", os.defpath)
    return None


def _is_local(paths: Sequence[str], *, of_script: bool = False) -> bool:
    """Whether the first of *paths* that is there is a program, on a disk as all folders before.

    So has to be the interpreter that a script's first line names.
    """
    root = os.stat("/").st_dev  # noqa: PTH116 - pathlib is heavy
    for path in paths:
        for each in (path.rpartition("/")[0] or "/", path):
            if os.access(each, os.F_OK):
                device = os.stat(each).st_dev  # noqa: PTH116 - as above
                if device != root and os.major(device) == 0:
                    return False
        if os.access(path, os.X_OK):
            with open(path, "rb") as program:  # noqa: PTH123 - as above
                head = program.readline(256)
            if head.startswith(b"#!") and not of_script:
                interpreter = head[2:].split()[:1]
                return _is_local([os.fsdecode(name) for name in interpreter], of_script=True)
            return head.startswith(b"\x7fELF")
    return False


class _Children:
    """Our children, zombies included. Only we reap, so none vanishes while the list is read."""

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


def _first_line(path: str) -> str:
    try:
        with open(path, "rb") as script:  # noqa: PTH123 - pathlib is heavy
            line = script.readline(128)
    except OSError:
        return ""
    return repr(line.rstrip(b"\n"))[1:] if line.startswith(b"#!") else ""


def _set_up_child(
    task: Frame, fds: Sequence[int], failures: _Failures, warden: int, become: Become
) -> NoReturn:
    step = "prepare"
    try:
        os.setsid()
        prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)  # our capabilities, if any
        if task["ids"] is not None:
            step = "user"
            _switch_user(task["ids"])
            step = "prepare"
        # After the change of user, which clears it.
        prctl(PR_SET_PDEATHSIG, _KILL, 0, 0, 0)
        if os.getppid() != warden:  # it died before we asked
            os._exit(1)
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for target, fd in enumerate(fds):
            os.dup2(fd, target)  # all other descriptors close on exec
        step = "cwd"
        if task["cwd"] is not None:
            os.chdir(task["cwd"])
        step = "exec"
        _sigprocmask(_SETMASK, _NO_SIGNALS, None)
        become(task)
    except OSError as error:
        # A path that exists and yet is not found lacks what its first line names.
        is_there = error.filename and step == "exec" and os.access(error.filename, os.F_OK)
        if is_there and error.errno == errno.ENOENT:
            step = f"interpreter {_first_line(error.filename)}"
        failures.report(step, error.errno or 0)
    except ValueError:  # a NUL in an argument
        failures.report(step, errno.EINVAL)
    finally:
        os._exit(127)


def _switch_user(ids: Sequence[int]) -> None:
    """In the child: become another user, if the warden may kill that user's processes."""
    if not _may_kill_others():
        raise PermissionError(errno.EPERM, "not allowed to end what runs as another user")
    user, group, *groups = ids
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def _may_kill_others() -> bool:
    with open("/proc/self/status", "rb") as status:  # noqa: PTH123 - pathlib is heavy
        for line in status:
            if line.startswith(b"CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAP_KILL & 1)
    return False


def _exec_command(task: Frame) -> NoReturn:
    """Replace this process; the name is looked up in the PATH that the command will see."""
    argv, env = task["argv"], task["env"]
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)  # noqa: S606 - never a shell
    failure: OSError = FileNotFoundError(errno.ENOENT, "not in PATH")
    for path in _places(argv[0], env.get("PATH", os.defpath)):
        if os.access(path, os.F_OK):
            try:
                os.execve(path, argv, env)  # noqa: S606 - never a shell
            except PermissionError as error:  # as execvp: try the other folders first
                failure = error
    raise failure


def _places(name: str, search: str) -> list[str]:
    if "/" in name:
        return [name]
    return [f"{folder or '.'}/{name}" for folder in search.split(":")]


def _signal_group(leader: int, signum: int) -> None:
    try:
        try:
            os.killpg(leader, signum)
        except ProcessLookupError:  # forked a moment ago, not yet a leader
            os.kill(leader, signum)
    except (ProcessLookupError, PermissionError):
        pass


def _ends_of_children() -> int:
    """A descriptor that is readable when a child has ended; a handler would cost each of them."""
    sigchld = struct.pack("@L", 1 << (signal.SIGCHLD - 1)).ljust(len(_NO_SIGNALS), b"\0")
    return int(ctypes.PyDLL(None).signalfd(-1, sigchld, os.O_CLOEXEC | os.O_NONBLOCK))


def _block_signals() -> None:
    """Block all that a task may send to us: our end would end every other task.

    Blocked rather than ignored or handled: a signal to a child that is not set up yet waits until
    it may take effect.
    """
    ours = {signal.SIGCONT, *_FAULTS}
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - ours)


def _have_default_signals() -> None:
    """Let commands begin with default signals; no handler can run in a child of vfork either."""
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(signum) is not signal.SIG_DFL:
            signal.signal(signum, signal.SIG_DFL)


def set_up_descriptors(inherited: int) -> socket.socket:
    control = fcntl.fcntl(inherited, fcntl.F_DUPFD_CLOEXEC, _CONTROL_FD)
    os.close(inherited)
    os.closerange(IPC_FD, _CONTROL_FD)
    if os.open(os.devnull, os.O_RDWR) != IPC_FD:
        sys.exit("cronhare: a warden needs its standard descriptors")
    return socket.socket(fileno=control)


def remove_folder(path: str) -> None:
    """Remove a folder with the parameters in it. A folder that a task has made there stays."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):  # noqa: PTH208 - pathlib is heavy
            with contextlib.suppress(OSError):
                os.unlink(f"{path}/{name}")  # noqa: PTH108 - as above
        os.rmdir(path)  # noqa: PTH106 - as above


def serve(
    control: socket.socket,
    *,
    folder: str,
    vfork: Vfork | None = None,
    become: Become = _exec_command,
) -> None:
    """Be a warden until the worker is gone, and remove *folder* then."""
    _block_signals()
    with open("/proc/self/comm", "w") as name:  # noqa: PTH123 - pathlib is heavy
        name.write("cronhare-warden")
    if prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("cronhare: this kernel has no subreapers; tasks could leave processes behind")
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # parameters are for their task alone
    # If a task has stopped us, our worker's end continues us.
    prctl(PR_SET_PDEATHSIG, _CONT, 0, 0, 0)
    warden = Warden(control, vfork, become)
    gc.freeze()  # collections touch, and forks copy, nothing that is loaded by now
    warden.run()
    remove_folder(folder)


def main() -> None:
    """Run as `python -I -S warden.py SOCKET FOLDER VFORK`."""
    control = set_up_descriptors(int(sys.argv[1]))
    _have_default_signals()
    serve(control, folder=sys.argv[2], vfork=Vfork(sys.argv[3]))


if __name__ == "__main__":
    main()
