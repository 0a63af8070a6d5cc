"""The worker's end of the socket to its warden."""

import array
import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from ..folders.folder import FolderPool
from ..folders.remover import Remover
from .liveness import LivenessCheck
from .warden import Frame, Unpacker, pack

_WARDEN = Path(__file__).with_name("warden.py")
_RECEIVE = 1 << 16
_TIMEOUT = 5.0  # seconds for a warden to go


class Link:
    """Starts a warden and talks to it, until one of the two ends.

    *on_frame* is called for each report. *on_lost* is called once, with the link's folder, if the
    warden vanishes before `close`, or is killed as it does not answer while it is *needed*. The
    warden removes the folder at its end, even if we are killed; if it is lost, *on_lost* has to.
    """

    def __init__(
        self,
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[str], None],
        *,
        needed: Callable[[], bool],
        remover: Remover,
    ) -> None:
        self._remover = remover
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._unpacker = Unpacker()
        self._outbox: deque[tuple[bytes, Sequence[int]]] = deque()
        self._is_stuck = False
        self.folder = tempfile.mkdtemp(prefix="cronhare-")
        self.folders = FolderPool(self.folder, remover)
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = _start_warden(theirs, self.folder)
        self._socket.setblocking(False)  # noqa: FBT003 - the standard library's own face
        self._loop.add_reader(self._socket, self._receive)
        self._liveness = LivenessCheck(
            self._process, ask=lambda: self._post({"ping": True}), needed=needed
        )

    def send(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        """Send a frame with *descriptors*, which are closed here once they are sent."""
        self._post(frame, descriptors)
        self._liveness.begin()

    def _post(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        self._outbox.append((pack(frame), descriptors))
        if len(self._outbox) == 1:
            self._flush()
        self._wake()

    def _wake(self) -> None:
        """Continue the warden, in case a task has stopped it."""
        self._process.send_signal(signal.SIGCONT)

    async def close(self) -> None:
        """Disconnect, and wait up to 10 s for the warden to kill what still runs and to end."""
        self._disconnect()
        self._wake()
        try:
            pidfd = os.pidfd_open(self._process.pid)
        except ProcessLookupError:  # it has ended, and `_wake` has reaped it
            pass
        else:
            await self._wait_for_exit(pidfd)
        self._reap()
        if self._process.returncode:  # else it removes the folder itself
            self._remover.remove(self.folder)

    async def _wait_for_exit(self, pidfd: int) -> None:
        gone = asyncio.Event()
        self._loop.add_reader(pidfd, gone.set)
        try:
            async with asyncio.timeout(_TIMEOUT):
                await gone.wait()
        except TimeoutError:  # a process that it killed hangs in the kernel
            self._process.kill()
        finally:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

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
                self._liveness.answered()
            else:
                self._on_frame(frame)
        if not chunk:
            self._on_disconnect()

    def _on_disconnect(self) -> None:
        try:
            self._disconnect()
            self._process.kill()  # it may have closed the socket and live
            self._reap()
        finally:  # its attempts wait for that
            self._on_lost(self.folder)

    def _disconnect(self) -> None:
        self._liveness.stop()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, descriptors in self._outbox:
            _close(descriptors)
        self._outbox.clear()

    def _reap(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):  # if it hangs in the kernel itself
            self._process.wait(_TIMEOUT)


def _start_warden(line: socket.socket, folder: str) -> "subprocess.Popen[bytes]":
    # A session of its own: Ctrl-C at our terminal is for us, who decide what becomes of the tasks.
    # Without our environment, which may hold passwords.
    libraries = {k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH"}
    flags = ("-I", "-S", "-X", "utf8")
    return subprocess.Popen(  # noqa: S603 - our own file
        [sys.executable, *flags, str(_WARDEN), str(line.fileno()), folder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(line.fileno(),),
        env=libraries,
        start_new_session=True,
    )


def _close(descriptors: Sequence[int]) -> None:
    for fd in descriptors:
        with contextlib.suppress(OSError):
            os.close(fd)
