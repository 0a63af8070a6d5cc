"""The worker's end of the socket to its warden, and what is killed where a warden is gone."""

import array
import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from .warden import Frame, Unpacker, pack, remove_folder

log = logging.getLogger(__name__)

_WARDEN = Path(__file__).with_name("warden.py")
#: What `hatch_build.py` has compiled, where there was a compiler; a warden without it forks.
_VFORK = Path(__file__).with_name("vfork.so")
_RECEIVE = 1 << 16
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL
_TIMEOUT = 5.0  # seconds for a warden to go
#: Seconds between two pings, each of which continues a warden that was stopped.
EVERY = 0.5
#: A warden is killed after so many pings without an answer, which ends the tasks it runs.
UNANSWERED = 30
#: Where parameters are while they are needed, if we may write there: on a disk, to make and to
#: remove a file takes a third of a short attempt.
_IN_MEMORY = "/dev/shm"  # noqa: S108 - our folder there is made as in any other
#: Seconds between two looks for orphans, and for all of them.
_PAUSE, _KILLING = 0.01, 10.0


#: Starts a warden at the other end of a socket, with its folder.
Start = Callable[[socket.socket, str], "subprocess.Popen[bytes]"]


class Link:
    """Starts a warden and talks to it, until one of the two ends.

    *on_frame* is called for each report. *on_lost* is called once, with the link's folder, if the
    warden vanishes before `close`, or is killed as it does not answer while it is *needed*.

    The folder holds the parameters of each attempt. The warden removes it at its end, even if we
    are killed; if the warden is lost, *on_lost* has to.
    """

    def __init__(
        self,
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[str], None],
        *,
        needed: Callable[[], bool],
        start: Start | None = None,
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._needed = needed
        self._loop = asyncio.get_running_loop()
        self._unpacker = Unpacker()
        self._outbox: deque[tuple[bytes, Sequence[int]]] = deque()
        self._is_stuck = False
        self._ping_timer: asyncio.TimerHandle | None = None
        self._unanswered = 0
        in_memory = os.access(_IN_MEMORY, os.W_OK | os.X_OK)
        parent = _IN_MEMORY if in_memory else tempfile.gettempdir()
        self.folder = f"{parent}/cronhare-{os.urandom(8).hex()}"
        self._socket, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as failing:
            failing.enter_context(self._socket)
            self._process = (start or _start_warden)(theirs, self.folder)
            failing.pop_all()
        self._socket.setblocking(False)  # noqa: FBT003 - the standard library's own face
        self._loop.add_reader(self._socket, self._receive)

    def write_params(self, path: str, params: object) -> int:
        """Write parameters to *path* in our folder; return a descriptor at their beginning.

        Raises:
            OSError: no space, or no permission.
        """
        try:
            fd = os.open(path, _NEW_FILE, 0o600)
        except FileNotFoundError:  # the first, or a task or a cleaner has removed the folder
            os.mkdir(self.folder, 0o700)  # noqa: PTH102 - a name here, not a path
            os.chmod(self.folder, 0o711)  # noqa: PTH101, S103 - others may pass, and not list it
            fd = os.open(path, _NEW_FILE, 0o600)
        text = msgspec.json.encode(params) + b"\n"
        try:
            if os.pwrite(fd, text, 0) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - as of write
        except OSError:
            os.close(fd)
            raise
        return fd

    def send(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        """Send a frame with *descriptors*, which are closed here once they are sent."""
        self._outbox.append((pack(frame), descriptors))
        if len(self._outbox) == 1:
            self._flush()
        if self._ping_timer is None:
            self._ping_timer = self._loop.call_later(EVERY, self._check)

    async def close(self, *, at_once: bool = False) -> None:
        """Disconnect, and wait up to 10 s for the warden to kill what still runs and to end.

        *at_once*: nothing runs yet, and it does not listen.
        """
        self._disconnect()
        self._process.send_signal(signal.SIGKILL if at_once else signal.SIGCONT)
        try:
            await asyncio.to_thread(self._process.wait, _TIMEOUT)
        except subprocess.TimeoutExpired:  # a process that it killed hangs in the kernel
            self._kill()
        if self._process.returncode:  # else it removes the folder itself
            remove_folder(self.folder)

    def _flush(self) -> None:
        while self._outbox:
            data, descriptors = self._outbox[0]
            try:
                sent = self._send(data, descriptors)
            except BlockingIOError:
                self._is_stuck = True
                self._loop.add_writer(self._socket, self._flush)
                return
            except ConnectionError:  # an end of file follows, and is handled there
                sent = len(data)
            _close(descriptors)
            if sent < len(data):
                self._outbox[0] = (data[sent:], ())
            else:
                self._outbox.popleft()
        if self._is_stuck:
            self._is_stuck = False
            self._loop.remove_writer(self._socket)

    def _send(self, data: bytes, descriptors: Sequence[int]) -> int:
        if not descriptors:
            return self._socket.send(data)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        return self._socket.sendmsg([data], [rights])

    def _receive(self) -> None:
        try:
            chunk = self._socket.recv(_RECEIVE)
        except BlockingIOError:
            return
        except ConnectionError:
            chunk = b""
        for frame in self._unpacker.feed(chunk):
            if "pong" in frame:
                self._unanswered = 0
            else:
                self._on_frame(frame)
        if not chunk:
            try:
                self._disconnect()
                self._kill()  # it may have closed the socket and live
            finally:  # its attempts wait for that
                self._on_lost(self.folder)

    def _disconnect(self) -> None:
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, descriptors in self._outbox:
            _close(descriptors)
        self._outbox.clear()

    def _kill(self) -> None:
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # if it hangs in the kernel itself
            self._process.wait(_TIMEOUT)

    def _check(self) -> None:
        """Tell a busy warden from one that is stopped or hangs, as long as it is needed.

        A task of our user can stop the warden: it is continued, and nothing is lost. If that does
        not help it is killed.
        """
        # Counted in pings and not in seconds: if we stood still ourselves, none is missing.
        if self._unanswered >= UNANSWERED:
            self._warn("does not come to itself and is killed; its tasks are lost")
            self._process.kill()
            return
        self._ping_timer = None
        if not self._unanswered and not self._needed():
            return
        if self._is_stopped():
            self._warn("stands still, as if a task had stopped it, and is continued")
        self._unanswered += 1
        self.send({"ping": True})
        self._process.send_signal(signal.SIGCONT)

    def _is_stopped(self) -> bool:
        """Ask the kernel, as a busy warden deserves no warning."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:  # it has ended, which `_receive` sees
            return False

    def _warn(self, what: str) -> None:
        text = f"The warden (pid {self._process.pid}) {what}"
        log.warning("%s", text, extra={"action": "warden.silent"})


def _start_warden(line: socket.socket, folder: str) -> "subprocess.Popen[bytes]":
    # A session of its own: Ctrl-C at our terminal is for us, who decide what becomes of the tasks.
    # Without our environment, which may hold passwords.
    return subprocess.Popen(  # noqa: S603 - our own file
        [sys.executable, "-I", "-S", "-X", "utf8", _WARDEN, str(line.fileno()), folder, _VFORK],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(line.fileno(),),
        env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        start_new_session=True,
    )


def _close(descriptors: Sequence[int]) -> None:
    for fd in descriptors:
        with contextlib.suppress(OSError):
            os.close(fd)


async def kill_orphans(*, sessions: Collection[int], folder: str) -> None:
    """Kill what tasks leave when their warden is killed, as no subreaper inherits it then.

    The main processes die with the warden (PDEATHSIG). Their descendants are known by their
    session, by `CRON_PARAMS_FILE` in their environment, or by a parent that is known; a process
    that shed all three is out of reach.

    *folder* holds the parameters of these attempts alone. *sessions* are the pids of their main
    processes, alive a moment ago: the kernel reuses a number only after all others, and not while
    its session has a member.
    """
    mark = f"\0CRON_PARAMS_FILE={folder}/".encode()
    timeout = time.monotonic() + _KILLING  # what SIGKILL does not end by then hangs in the kernel
    while _kill_descendants(sessions, mark) and time.monotonic() < timeout:  # noqa: ASYNC110
        await asyncio.sleep(_PAUSE)


def _kill_descendants(sessions: Collection[int], mark: bytes) -> bool:
    parents: dict[int, int] = {}
    found: set[int] = set()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208 - names
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if stat[0] in (b"Z", b"X"):  # it has ended
                continue
            parents[pid] = int(stat[1])
            if (
                int(stat[3]) in sessions
                or mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
            ):
                found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    killed = False
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            killed = True
    return killed
