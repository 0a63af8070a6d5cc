"""Children of an app's interpreter that are used again: their sockets, and the pool of them.

The other ends are entrypoints/python/reused.py and coroutines.py, where the frames are told. A
child is forked by the interpreter as an attempt is, so its signals, its end and what it leaves are
the warden's; but for a run no file, pipe or process is made.
"""

import asyncio
import contextlib
import logging
import marshal
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Sequence

from cronhare.domain.schedules.task import Task

from .attempt import GRACE, Attempt, resident
from .output import LentPipe
from .warden import LARGE, LARGEST_PACKET, Frame, Unpacker, pack

log = logging.getLogger(__name__)

_RECEIVE = 1 << 16
#: Seconds within which short runs end; and that a run waits where some end, but waited themselves.
_MOMENT, _LONG = 0.025, 0.05
#: Runs that a child of a pool has at most, the one that it is at among them.
_MOST_QUEUED = 4

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
        self._is_stuck = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self._line, theirs = socket.socketpair()
        self.pipes = LentPipe(self.isolate), LentPipe(self.isolate)
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
        self._settle(None)
        self._release()

    def retire(self) -> None:
        """Have it end by itself, once it is at nothing; kill it if it does not."""
        self.is_usable = False
        self._close_line()
        if self._kill_timer is None:
            self._kill_timer = self._loop.call_later(GRACE, self._kill, signal.SIGKILL)

    def isolate(self) -> bool:
        """Prepare for output to be read as it comes; whether that is a run's that goes on."""
        return True

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
        except OSError:  # ECONNRESET alone, if it has not read all
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

    @abstractmethod
    def _last_descriptor(self) -> int:
        """Make what is its descriptor 3."""

    @abstractmethod
    def attempts(self) -> Collection[Attempt]:
        """Those that run in it."""

    @abstractmethod
    def _begin(self, pid: int) -> None: ...

    @abstractmethod
    def _handle(self, frame: Frame) -> None: ...

    @abstractmethod
    def _settle(self, report: Frame | None) -> None:
        """End its runs; without a report they are told by others, with their interpreter's end."""


class _Run:
    """A run of a pool, which may wait for a child; *since* is when it came."""

    def __init__(self, pool: "Pool", attempt: Attempt, frame: Frame, since: float) -> None:
        self.attempt = attempt
        self.packet = marshal.dumps(frame)
        self.since = since
        self.child: PoolChild | None = None
        self._pool = pool

    def signal(self, signum: int) -> None:
        waiting = [] if self.child is None else self.child.signal(self, signum)
        if self.child is None:
            self.attempt.abandon("it waited for a child", is_over=True)
        self._pool.put_back(waiting)


class PoolChild(KeptChild):
    """A child that runs one attempt after the other. One that was sent a signal takes no other.

    It takes runs one by one from a queue, a socket of which we have the other end as well: what is
    still there has not begun, and can be had back. It tells the end of a run before it takes the
    next one. So of *runs* the first alone may have begun.
    """

    kind = "pool"

    def __init__(self, fork: Fork, work: Frame, pool: "Pool") -> None:
        self.runs: deque[_Run] = deque()
        self._pool = pool
        self._began_at = 0.0  # the first of the runs
        self._is_quick = self._is_alone = False
        self._has_run = self._has_threads = False  # of earlier runs
        self._began_with = 0
        self._signalled = False
        self._end: Frame | None = None
        super().__init__(fork, work)

    @property
    def has_room(self) -> bool:
        """Whether a run may wait for those that are here, as they end in no time."""
        return (
            self.is_usable
            and self._is_quick
            and not self._is_alone
            and len(self.runs) < _MOST_QUEUED
            and self.runs[0].attempt.memory is None
            and len(self.runs[0].packet) <= LARGEST_PACKET  # else it could not be had back
        )

    def is_late(self, moment: float) -> bool:
        return bool(self.runs) and self._began_at < moment

    def give(self, run: _Run) -> None:
        run.child = self
        self.runs.append(run)
        self._push(run)
        if len(self.runs) == 1:
            self._begin_first()

    def take_back(self) -> list[_Run]:
        """Give the runs that have not begun, but for the first."""
        if len(self.runs) < 2:  # noqa: PLR2004 - none waits
            return []
        count = self._drain()
        if count == len(self.runs) and self.is_usable:
            count -= 1
            self._push(self.runs[0])
        taken = [self.runs.pop() for _ in range(count)][::-1]
        for run in taken:
            run.child = None
            run.attempt.return_pipes()  # the first as well, where the child has ended
        return taken

    def isolate(self) -> bool:
        """Let no run wait for the first, whose output is read as it comes; False if it is over."""
        first = self.runs[0] if self.runs else None
        taken = self.take_back()
        self._receive_all()
        self._is_alone = goes_on = bool(self.runs) and self.runs[0] is first
        self._pool.put_back(taken)
        return goes_on

    def signal(self, run: _Run, signum: int) -> list[_Run]:
        """Send a signal to a run, if it has begun, and have it be the last; give the others."""
        self._is_alone = True
        taken = self.take_back()
        self._receive_all()  # it may be at the next one by now
        if self.runs and self.runs[0] is run:
            self.is_usable, self._signalled = False, True
            self._kill(signum)
        return taken

    def attempts(self) -> Collection[Attempt]:
        return [self.runs[0].attempt] if self.runs else []

    def _push(self, run: _Run) -> None:
        if len(run.packet) <= LARGEST_PACKET:
            self._queue.send(run.packet)
        else:  # it is the only one
            self._queue.send(LARGE)
            self._send(marshal.loads(run.packet))  # noqa: S302 - our own

    def _drain(self) -> int:
        count = 0
        with contextlib.suppress(BlockingIOError):
            while self._theirs.recv(LARGEST_PACKET, socket.MSG_DONTWAIT):
                count += 1
        return count

    def _receive_all(self) -> None:
        while self._line.fileno() >= 0 and self._receive():
            pass

    def _begin_first(self) -> None:
        attempt = self.runs[0].attempt
        self._began_at, self._is_alone = self._loop.time(), False
        attempt.borrow(*self.pipes)
        if self.pid is not None:
            if attempt.memory is not None:
                attempt.held_before = max(resident(self.pid) - self._began_with, 0)
            attempt.started(self.pid)

    def _begin(self, pid: int) -> None:
        self._began_with = resident(pid)
        if self.runs:
            self.runs[0].attempt.started(pid)

    def _handle(self, frame: Frame) -> None:
        if not self.runs:
            return
        attempt = self.runs[0].attempt
        attempt.report(frame["lines"])
        if "report" in frame:
            return
        if self._signalled:  # it is over once nothing of it is left
            self._end = frame
            self._close_line()
            return
        self.runs.popleft()
        self._has_run, self._has_threads = True, frame["threads"]
        self._is_quick = not frame["waited"] and self._loop.time() - self._began_at < _MOMENT
        self._pool.waits |= frame["waited"]
        if frame["last"]:
            self.is_usable = False
            self._pool.put_back(self._all_back())
            self.retire()
        try:
            if (dirt := frame["dirt"]) is not None:
                self._pool.warn_of_dirt(attempt.invocation.task, dirt)
            attempt.ended(frame)
        finally:
            if self.is_usable:
                if frame["printed"]:  # and has been read: what comes now is of the next run
                    self._send({"go": True})
                if self.runs:
                    self._begin_first()
                self._pool.has_freed(self)

    def _all_back(self) -> list[_Run]:
        taken = list(self.runs)
        self.runs.clear()
        for run in taken:
            run.child = None
        return taken

    def _settle(self, report: Frame | None) -> None:
        has_begun = self._drain() < len(self.runs)
        runs = self._all_back()
        if not runs or report is None:
            return
        first = runs[0]
        if self._has_run and not has_begun and not self._signalled:
            # Without a run before, whatever ended it so would end all others.
            first.attempt.return_pipes()
            self._pool.put_back(runs)
            return
        self._pool.put_back(runs[1:])
        if self._end is not None:
            first.attempt.ended({**report, **self._end, "signalled": report["signalled"]})
            return
        why = None
        if not has_begun:
            why = "before it began"
        elif self._has_threads:
            why = "as a thread of an earlier run may have made it"
        if why is None or self._signalled or report["failure"]:
            first.attempt.ended(report)
        else:
            self._pool.suspect(first.attempt.invocation.execution_id)
            first.attempt.hand_back(f"handed back: its child ended, {why}; it is run alone next")

    def _close_line(self) -> None:
        super()._close_line()
        self._queue.close()

    def _release(self) -> None:
        super()._release()
        self._theirs.close()

    def _last_descriptor(self) -> int:
        self._queue, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return os.dup(self._theirs.fileno())


class Pool:
    """Children for tasks of one app that run one at a time in each; one is always ready.

    Short runs are over before another child is forked, and fewer children are warmer. So beyond
    one for each processor a run waits a moment for one that gets free, and does so at a child whose
    runs have been short. Others are forked if none gets free, or where runs have not worked all the
    time but waited, as for a server.
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

    def begin(self, id_: int, attempt: Attempt, frame: Frame) -> Callable[[int], None]:  # noqa: ARG002 - as of `Loops`
        run = _Run(self, attempt, frame, self._loop.time())
        self._waiting.append(run)
        try:
            self._hand_out()
        except OSError:
            self._waiting.remove(run)
            raise
        return run.signal

    def put_back(self, runs: Sequence[_Run]) -> None:
        """Take runs that have not begun in a child; others may have them."""
        if runs:
            self._waiting = deque(sorted((*runs, *self._waiting), key=lambda run: run.since))
            with contextlib.suppress(OSError):  # no descriptors are left: they go on waiting
                self._hand_out()

    def has_freed(self, child: PoolChild) -> None:
        self._was_freed = True
        if not child.runs:
            self._free.append(child)
            if not self._waiting:
                most = max(self._children, key=lambda each: len(each.runs))
                self._waiting.extend(most.take_back())
        if self._waiting:
            with contextlib.suppress(OSError):  # as above
                self._hand_out()

    def warn_of_dirt(self, task: Task, dirt: str) -> None:
        """Say once for a task what its runs leave."""
        if (place := (task.source, task.name)) not in self._warned:
            self._warned.add(place)
            text = f"Task {task.name} {dirt}; a new child takes the place of the one that it ran in"
            log.warning("%s", text, extra={"action": "pool.dirty"})

    def _hand_out(self) -> None:
        try:
            while self._waiting:
                run = self._waiting[0]
                if not run.attempt.over.done():
                    child = self._free_child() or self._new_child() or self._quick_child(run)
                    if child is None:
                        break
                    child.give(run)
                self._waiting.popleft()
        finally:  # what no child could be had for is seen to then
            if not self._free and self._timer is None:
                self._timer = self._loop.call_later(_MOMENT, self._look)

    def _look(self) -> None:
        """Fork as many again as there are, if no run has ended or they wait; or else a spare."""
        waits, was_freed = self.waits, self._was_freed
        self.waits = self._was_freed = False
        now, goes_on = self._loop.time(), True
        for child in self._children:
            if child.is_late(now - _MOMENT):
                child.isolate()
        waiting = self._waiting = deque(run for run in self._waiting if not run.attempt.over.done())
        with contextlib.suppress(OSError):  # as above
            if waiting:
                takes_long = now - waiting[0].since > _LONG
                have_begun = all(child.pid is not None for child in self._children)
                as_many = (have_begun and not was_freed) or (waits and takes_long)
                for _ in range(min(len(self._children) if as_many else 0, len(waiting))):
                    self._new().give(waiting.popleft())
            elif all(len(child.runs) <= 1 for child in self._children):  # none waits there either
                goes_on = False
                if self._free_child(keep=True) is None:
                    self._free.append(self._new())
        self._timer = self._loop.call_later(_MOMENT, self._look) if goes_on else None

    def _free_child(self, *, keep: bool = False) -> PoolChild | None:
        """Find the one that was used last, as it is the warmest."""
        while self._free:
            child = self._free[-1] if keep and self._free[-1].is_usable else self._free.pop()
            if child.is_usable:
                return child
        return None

    def _new_child(self) -> PoolChild | None:
        few = sum(child.is_usable for child in self._children) < self._processors
        return self._new() if few else None

    def _quick_child(self, run: _Run) -> PoolChild | None:
        """Find the one with the fewest runs among those where a run may wait for others."""
        if run.attempt.memory is not None or len(run.packet) > LARGEST_PACKET:
            return None
        having_room = (child for child in self._children if child.has_room)
        return min(having_room, key=lambda child: len(child.runs), default=None)

    def _new(self) -> PoolChild:
        child = PoolChild(self._fork, self._work, self)
        self._children = [*(each for each in self._children if each.is_usable), child]
        return child
