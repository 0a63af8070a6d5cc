"""Our end of the line to a warden."""

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

    *on_frame* is called for each of its reports; *on_lost*, once and with the link's folder, if
    it vanishes before `close`, or has to be killed because it stands still while it is *needed*.
    *folder* is ours while the link lives. The warden removes it at its end, even if we are killed;
    if it is lost, whoever is told of that has to.
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

    @property
    def pid(self) -> int:
        """The warden's process id."""
        return self._process.pid

    def send(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        """Send a frame; the *descriptors* are ours no more, and closed once they have gone."""
        self._post(frame, descriptors)
        self._liveness.begin()

    def _post(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        self._outbox.append((pack(frame), descriptors))
        if len(self._outbox) == 1:
            self._flush()
        self.wake()

    def wake(self) -> None:
        """Continue the warden: if somebody stopped it, it would hear nothing."""
        self._process.send_signal(signal.SIGCONT)

    async def close(self) -> None:
        """Hang up. The warden kills what still runs and goes; we wait for that, within bounds."""
        self._disconnect()
        self.wake()
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:  # it has gone, and to wake it was to hear of that
            pass
        else:
            await self._wait_for_exit(pidfd)
        self._reap()
        if self._process.returncode:  # else it removes that itself, however long that takes
            self._remover.remove(self.folder)

    async def _wait_for_exit(self, pidfd: int) -> None:
        gone = asyncio.Event()
        self._loop.add_reader(pidfd, gone.set)
        try:
            async with asyncio.timeout(_TIMEOUT):
                await gone.wait()
        except TimeoutError:  # something that it killed hangs in the kernel
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
            except ConnectionError:  # told to us by an end of file, in a moment
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
            self._process.kill()  # should it have closed the line and live
            self._reap()
        finally:  # whatever else fails: its attempts wait for that
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
    # Its own session: a Ctrl-C at our terminal is for us, we decide what becomes of the tasks.
    # Without our environment: it may hold passwords, and the warden needs none of it.
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
