"""Children of an app's interpreter that are used again: their sockets, and the pool of them.

The other ends are entrypoints/python/reused.py and coroutines.py, where the frames are told. A
child is forked by the interpreter as an attempt is, so its signals, its end and what it leaves are
the warden's; but for a run no file, pipe or process is made.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from cronhare.domain.schedules.task import Task

from .attempt import GRACE, Attempt, resident
from .output import LentPipe
from .warden import Frame, Unpacker, pack

log = logging.getLogger(__name__)

_RECEIVE = 1 << 16
#: Seconds within which short runs end; and that a run waits where some end, but waited themselves.
_MOMENT, _LONG = 0.025, 0.05

#: Has an execution run alone next time.
Suspect = Callable[[int], None]

#: Asks the interpreter for a child; gives what sends a signal to it.
Fork = Callable[["KeptChild", Frame, Sequence[int]], Callable[[int], None]]


class KeptChild(ABC):
    """The worker's end of a child that is kept."""

    kind: str

    def __init__(self, fork: Fork, work: Frame) -> None:
        """Have it forked as the frame *work* says.

        Raises:
            OSError: no descriptors are left, or the interpreter has ended.
        """
        self.pid: int | None = None
        self.is_usable = True  # for another run
        self._loop = asyncio.get_running_loop()
        self._unpacker = Unpacker()
        self._outbox = bytearray()
        self._has_unread = False  # it has ended before it read all that it was sent
        self._is_stuck = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self._line, theirs = socket.socketpair()
        self.pipes = LentPipe(), LentPipe()
        last = self._last_descriptor()
        descriptors = [theirs.detach(), *(pipe.writer for pipe in self.pipes), last]
        self._line.setblocking(False)  # noqa: FBT003 - the standard library's own face
        try:
            self._kill = fork(self, {"kept": self.kind, **work}, descriptors)
        except OSError:
            for fd in descriptors:
                os.close(fd)
            self._release()
            raise
        self._loop.add_reader(self._line, self._receive)

    def started(self, pid: int) -> None:
        """See `Started`. It says so itself as well, and may be the first."""
        if self.pid is None:
            self.pid = pid
            self._begin(pid)

    def ended(self, report: Frame) -> None:
        """See `Started`; first comes what it said before its end."""
        self.is_usable = False
        while self._line.fileno() >= 0 and self._receive():
            pass
        self._settle(report)
        self._release()

    def lost(self, why: str) -> None:  # noqa: ARG002 - see Started
        """See `Started`. Its runs are told by themselves."""
        self.is_usable = False
        self._settle_lost()
        self._release()

    def retire(self) -> None:
        """Have it end by itself, once it is at nothing; kill it if it does not."""
        self.is_usable = False
        self._close_line()
        if self._kill_timer is None:
            self._kill_timer = self._loop.call_later(GRACE, self._kill, signal.SIGKILL)

    def _send(self, frame: Frame) -> None:
        self._outbox += pack(frame)
        if not self._is_stuck:
            self._flush()

    def _flush(self) -> None:
        try:
            del self._outbox[: self._line.send(self._outbox)]
        except BlockingIOError:
            pass
        except OSError:  # its end is told by the interpreter
            self._has_unread = True
            self._outbox.clear()
        if bool(self._outbox) != self._is_stuck:
            self._is_stuck = bool(self._outbox)
            if self._is_stuck:
                self._loop.add_writer(self._line, self._flush)
            else:
                self._loop.remove_writer(self._line)

    def _receive(self) -> bool:
        try:
            chunk = self._line.recv(_RECEIVE)
        except BlockingIOError:
            return False
        except OSError:  # ECONNRESET alone: of a socket with unread data the other end is told so
            self._has_unread = True
            chunk = b""
        try:
            for frame in self._unpacker.feed(chunk):
                if "pid" in frame:
                    self.started(frame["pid"])
                else:
                    self._handle(frame)
        except Exception as fault:
            text = "A report of a child that is kept met a fault of ours"
            log.exception("%s", text, extra={"action": "fault"})
            self.is_usable = False
            self._kill(signal.SIGKILL)
            for attempt in self.attempts():
                attempt.abandon(f"{text}: {fault!r}", is_over=True)
        if not chunk:  # it ends, or a task has closed its descriptors
            self.is_usable = False
            self._close_line()
        return bool(chunk)

    def _close_line(self) -> None:
        if self._line.fileno() >= 0:
            self._loop.remove_reader(self._line)
            self._loop.remove_writer(self._line)
            self._line.close()

    def _release(self) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._close_line()
        for pipe in self.pipes:
            pipe.end()

    def _last_descriptor(self) -> int:
        return os.open(os.devnull, os.O_RDWR)

    @abstractmethod
    def attempts(self) -> Collection[Attempt]:
        """Those that run in it."""

    @abstractmethod
    def _begin(self, pid: int) -> None: ...

    @abstractmethod
    def _handle(self, frame: Frame) -> None: ...

    @abstractmethod
    def _settle(self, report: Frame) -> None: ...

    @abstractmethod
    def _settle_lost(self) -> None: ...


class Host(Protocol):
    """Where runs of one app and user go: a pool, or a loop."""

    def begin(self, id_: int, attempt: Attempt, frame: Frame) -> Callable[[int], None]:
        """Begin a run; give what sends signals to it.

        Raises:
            OSError: no child can be had.
        """
        ...


class PoolChild(KeptChild):
    """A child that runs one attempt at a time. One that was sent a signal takes no other."""

    kind = "pool"

    def __init__(self, fork: Fork, work: Frame, pool: "Pool") -> None:
        super().__init__(fork, work)
        self._pool = pool
        self._has_threads = False  # of earlier runs
        self._began_with = 0
        self._attempt: Attempt | None = None
        self._signalled = False
        self._end: Frame | None = None

    def begin(self, attempt: Attempt, frame: Frame) -> None:
        self._attempt = attempt
        attempt.borrow(*self.pipes)
        self._send(frame)
        if self.pid is not None:
            if attempt.memory is not None:
                attempt.held_before = max(resident(self.pid) - self._began_with, 0)
            attempt.started(self.pid)

    def _begin(self, pid: int) -> None:
        self._began_with = resident(pid)
        if self._attempt is not None:
            self._attempt.started(pid)

    def attempts(self) -> Collection[Attempt]:
        return [] if self._attempt is None else [self._attempt]

    def signal(self, signum: int) -> None:
        """Send a signal to the run, and have it the last one of this child."""
        self.is_usable, self._signalled = False, True
        self._kill(signum)

    def _handle(self, frame: Frame) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        if "report" in frame:
            attempt.report(frame["lines"])
            return
        attempt.report(frame["lines"])
        if self._signalled:  # it is over once nothing of it is left
            self._end = frame
            self._close_line()
            return
        self._attempt = None
        self._pool.waits |= frame["waited"]
        self._has_threads = frame["threads"]
        if frame["last"]:
            self.retire()
        try:
            if (dirt := frame["dirt"]) is not None:
                self._pool.warn_of_dirt(attempt.invocation.task, dirt)
            attempt.ended(frame)
        finally:
            if self.is_usable:
                self._pool.has_freed(self)

    def _settle(self, report: Frame) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        if self._end is not None:
            attempt.ended({**report, **self._end, "signalled": report["signalled"]})
            return
        why = None
        if self._has_unread:
            why = "before it began"
        elif self._has_threads:
            why = "as a thread of an earlier run may have made it"
        if why is None or self._signalled or report["failure"]:
            attempt.ended(report)
        else:
            self._pool.suspect(attempt.invocation.execution_id)
            attempt.hand_back(f"handed back: its child ended, {why}; it is run alone next")

    def _settle_lost(self) -> None:
        self._attempt = None  # it is told as well


class _Run:
    """A run of a pool, which may wait for a child; *since* is when it came."""

    def __init__(self, attempt: Attempt, frame: Frame, since: float) -> None:
        self.attempt = attempt
        self.frame = frame
        self.since = since
        self.child: PoolChild | None = None

    def signal(self, signum: int) -> None:
        if self.child is not None:
            self.child.signal(signum)
        else:
            self.attempt.abandon("it waited for a child", is_over=True)


class Pool:
    """Children for tasks of one app that run one at a time in each; one is always ready.

    Short runs are over before another child is forked, and fewer children are warmer. So beyond
    one for each processor a run waits a moment for one that gets free. Others are forked if none
    does, or where runs have not worked all the time but waited, as for a server.
    """

    def __init__(self, fork: Fork, work: Frame, suspect: Suspect) -> None:
        self.suspect = suspect
        self._fork = fork
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._processors = len(os.sched_getaffinity(0))
        self._children: list[PoolChild] = []
        self._free: list[PoolChild] = []
        self._waiting: deque[_Run] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._was_freed = self.waits = False
        self._warned: set[tuple[str | None, str]] = set()

    def begin(self, id_: int, attempt: Attempt, frame: Frame) -> Callable[[int], None]:  # noqa: ARG002 - see Host
        """See `Host.begin`. The child that was used last is the warmest."""
        run = _Run(attempt, frame, self._loop.time())
        child = self._free_child()
        if child is None and len(self._children) < self._processors:
            child = self._new()
        if child is None:
            self._waiting.append(run)
        else:
            self._give(run, child)
        if not self._free and self._timer is None:
            self._timer = self._loop.call_later(_MOMENT, self._look)
        return run.signal

    def has_freed(self, child: PoolChild) -> None:
        self._was_freed = True
        while self._waiting:
            run = self._waiting.popleft()
            if not run.attempt.over.done():
                self._give(run, child)
                return
        self._free.append(child)

    def warn_of_dirt(self, task: Task, dirt: str) -> None:
        """Say once for a task what its runs leave."""
        if (place := (task.source, task.name)) not in self._warned:
            self._warned.add(place)
            text = f"Task {task.name} {dirt}; a new child takes the place of the one that it ran in"
            log.warning("%s", text, extra={"action": "pool.dirty"})

    def _give(self, run: _Run, child: PoolChild) -> None:
        run.child = child
        child.begin(run.attempt, run.frame)

    def _look(self) -> None:
        """Fork as many again as there are, if no run has ended or they wait; or else a spare."""
        waits, was_freed = self.waits, self._was_freed
        self._timer, self.waits, self._was_freed = None, False, False
        waiting = self._waiting = deque(run for run in self._waiting if not run.attempt.over.done())
        with contextlib.suppress(OSError):  # no descriptors are left: they go on waiting
            if not waiting:
                if self._free_child(keep=True) is None:
                    self._free.append(self._new())
                return
            takes_long = self._loop.time() - waiting[0].since > _LONG
            have_begun = all(child.pid is not None for child in self._children)
            as_many = (have_begun and not was_freed) or (waits and takes_long)
            for _ in range(min(len(self._children) if as_many else 0, len(waiting))):
                child = self._new()
                self._give(waiting.popleft(), child)
        if waiting:
            self._timer = self._loop.call_later(_MOMENT, self._look)

    def _free_child(self, *, keep: bool = False) -> PoolChild | None:
        while self._free:
            child = self._free[-1] if keep and self._free[-1].is_usable else self._free.pop()
            if child.is_usable:
                return child
        return None

    def _new(self) -> PoolChild:
        child = PoolChild(self._fork, self._work, self)
        self._children = [*(each for each in self._children if each.is_usable), child]
        return child
