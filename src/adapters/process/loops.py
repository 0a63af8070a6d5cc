"""Children of an app's interpreter that run many coroutines at once.

One that goes on after its cancel, or holds up the loop that it shares, cannot be killed alone. So
its child is killed, and the runs beside it are handed back: interrupted, which costs no attempt. If
the child dies of itself, all that ran are suspects, and each is run alone next: see `apps.py`. So
is one that ran by itself, if there were others before it: they may have left a task behind. And
one that is handed back a second time: else a neighbour that does so each time keeps it for ever.
"""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Collection
from functools import partial

from cronhare.domain.texts.words import counted

from .attempt import Attempt, resident, say_size
from .kept import Fork, KeptChild, Suspect
from .output import AttemptLog, Output
from .warden import MOST_AGE, MOST_GROWTH, Frame

#: Seconds between two pings of a loop that has runs, and how many it may leave unanswered.
EVERY, UNANSWERED = 1.0, 5
#: So many unanswered pings tell a loop that stands still from one that has much to do.
_STANDS_STILL = 2
#: Executions that are remembered as handed back; beyond them all are forgotten.
_MOST_HANDED_BACK = 100_000
#: Seconds that a child has to write its stack; and that a run whose lease is lost, or a child that
#: has closed its socket, has to end.
_STACK, _AT_ONCE = 0.25, 1.0
_LONGEST_STACK = 16 * 1024
#: The innermost frame of a loop that waits for work.
_WAITS = re.compile(r'\A[^\n]*\n  File "[^"]*/(selectors|asyncio/base_events)\.py"')
_WHOSE = re.compile(r"^run (\d+)\n", re.MULTILINE)


class LoopChild(KeptChild):
    """A child that runs coroutines."""

    kind = "async"

    def __init__(self, fork: Fork, work: Frame, suspect: Suspect, handed_back: set[int]) -> None:
        self._attempts: dict[int, Attempt] = {}
        self._cancelled: set[int] = set()
        self._suspect = suspect
        self._handed_back = handed_back
        self._runs = 0
        self._began_with = 0
        self._ends_at = time.monotonic() + MOST_AGE
        self._unanswered = 0
        self._condemned: set[int] | None = None
        self._guilty: set[int] | None = None
        self._why = ""
        self._ping_timer: asyncio.TimerHandle | None = None
        super().__init__(fork, work)
        self._ping_timer = self._loop.call_later(EVERY, self._ping)
        own_log = AttemptLog(None, self._loop.time)
        for pipe in self.pipes:  # what no run has printed
            pipe.lend(Output(own_log).feed)
            pipe.listen(self._loop)

    def begin(self, id_: int, attempt: Attempt, frame: Frame) -> None:
        self._attempts[id_] = attempt
        self._runs += 1
        self._send(frame)
        if self.pid is not None:
            attempt.started(self.pid)
        if self._runs >= (frame["per_child"] or self._runs + 1) or time.monotonic() > self._ends_at:
            self.is_usable = False

    def _begin(self, pid: int) -> None:
        self._began_with = resident(pid)
        for attempt in self.attempts():
            attempt.started(pid)

    def attempts(self) -> Collection[Attempt]:
        return list(self._attempts.values())

    def signal(self, id_: int, signum: int) -> None:
        """Cancel a run; to kill one that has been cancelled is to kill the child."""
        if id_ not in self._attempts:
            return
        if id_ not in self._cancelled:
            self._cancelled.add(id_)
            self._send({"cancel": id_})
            if signum == signal.SIGKILL:
                self._loop.call_later(_AT_ONCE, self.signal, id_, signum)
        elif signum == signal.SIGKILL:
            self._condemn({id_})

    def _handle(self, frame: Frame) -> None:
        if "pong" in frame:
            self._unanswered = 0
            return
        id_ = frame.get("ended") or frame.get("out") or frame.get("report")
        attempt = self._attempts.get(id_ or 0)
        if attempt is None or id_ is None:
            return
        if "out" in frame:
            attempt.write(frame["fd"], frame["data"])
        elif "report" in frame:
            attempt.report(frame["lines"])
        else:
            del self._attempts[id_]
            self._cancelled.discard(id_)
            attempt.ended(frame)
            if not self._attempts and not self.is_usable:
                self.retire()

    def _receive(self) -> bool:
        goes_on = super()._receive()
        if self._line.fileno() < 0 and self._kill_timer is None:
            # If it does not end now, a run has closed the socket, and of none the end will be told.
            why = "closed its socket to the worker"
            self._kill_timer = self._loop.call_later(_AT_ONCE, self._execute, why, set())
        return goes_on

    def _flush(self) -> None:
        waiting = self._is_stuck and len(self._outbox)
        super()._flush()
        if len(self._outbox) < waiting:  # it reads what comes before our pings
            self._unanswered = 0

    def _ping(self) -> None:
        self._ping_timer = self._loop.call_later(EVERY, self._ping)
        if self._condemned is not None or self.pid is None:
            return
        held = resident(self.pid)
        if not self._attempts:
            if held - self._began_with > MOST_GROWTH:
                self.retire()
            return
        limit = max(_memory(attempt) for attempt in self._attempts.values())
        if 0 < limit < held:
            self._execute(f"took more memory than its {say_size(limit)}", self._only())
        elif self._unanswered >= UNANSWERED:
            self._condemn(set())
        else:
            self._unanswered += 1
            self._send({"ping": True})

    def _condemn(self, runs: set[int]) -> None:
        """Ask for the stack; then kill the child for *runs*, or for what holds it up."""
        if self._condemned is not None:
            self._condemned |= runs
            return
        self._condemned = runs
        self._kill(signal.SIGUSR2)
        self._loop.call_later(_STACK, self._judge)

    def _judge(self) -> None:
        """See whether one run holds up the loop: that one is guilty, whoever's time is over."""
        guilty, self._condemned = self._condemned or set(), None
        written = os.pread(self._stack, _LONGEST_STACK, 0).decode(errors="replace")
        stands_still = self._unanswered >= _STANDS_STILL and not _WAITS.search(written)
        if stands_still:
            whose = _WHOSE.search(written)
            holder = int(whose[1]) if whose else 0
            guilty = ({holder} & self._attempts.keys()) if holder else self._only()
            why = f"held up the loop that it shares for more than {self._unanswered * EVERY:g} s"
            advice = ": await what takes long, or use executor fork or pool"
            self._execute(why, guilty, _WHOSE.sub("", written).strip(), advice=advice)
        elif guilty & self._attempts.keys():
            self._execute("went on after its cancel", guilty)
        else:  # it has come to itself, or they have ended
            self._unanswered = 0

    def _execute(self, why: str, guilty: set[int], stack: str = "", *, advice: str = "") -> None:
        """Kill the child; who is *guilty* is told *why*, and what to do about it."""
        self.is_usable, self._condemned = False, set()
        self._guilty, self._why = guilty, why
        for id_ in guilty & self._attempts.keys():
            self._attempts[id_].condemn(f"{why}{advice}", stack)
        self._kill(signal.SIGKILL)

    def _only(self) -> set[int]:
        """The run, if its child has had no other; else it is unknown which one it is."""
        return set(self._attempts) if self._runs == 1 else set()

    def _settle(self, report: Frame | None) -> None:
        ended, self._attempts = self._attempts, {}
        if report is None:
            return
        if self._guilty is None:
            self._guilty = set(ended) if self._runs == 1 or report["failure"] else set()
            self._why = "ended by itself"
        for id_, attempt in ended.items():
            if id_ in self._guilty:
                attempt.ended(report)
                continue
            name, execution_id = attempt.invocation.task.name, attempt.invocation.execution_id
            if self._guilty:
                text = f"a run beside it {self._why}"
            elif len(ended) > 1:
                text = f"the child of {name} and {counted(len(ended) - 1, 'other run')} {self._why}"
            else:
                text = f"the child of {name}, where earlier runs may go on, {self._why}"
            if not self._guilty or execution_id in self._handed_back:
                self._handed_back.discard(execution_id)
                self._suspect(execution_id)
                text += "; it is run alone next"
            else:
                self._handed_back.add(execution_id)
            attempt.hand_back(f"handed back: {text}")
        if len(self._handed_back) > _MOST_HANDED_BACK:
            self._handed_back.clear()

    def _release(self) -> None:
        super()._release()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        os.close(self._stack)

    def _last_descriptor(self) -> int:
        self._stack = os.memfd_create("stack")
        return os.dup(self._stack)


class Loops:
    """The child that has an app's coroutines; another takes its place once it is not usable."""

    def __init__(self, fork: Fork, work: Frame, suspect: Suspect) -> None:
        self._new = partial(LoopChild, fork, work, suspect, set[int]())
        self._current: LoopChild | None = None

    def begin(self, id_: int, attempt: Attempt, frame: Frame) -> Callable[[int], None]:
        child = self._current
        if child is None or not child.is_usable:
            child = self._current = self._new()
        child.begin(id_, attempt, frame)
        return partial(child.signal, id_)


def _memory(attempt: Attempt) -> int:
    call = attempt.invocation.task.python
    return call.memory or 0 if call is not None else 0
