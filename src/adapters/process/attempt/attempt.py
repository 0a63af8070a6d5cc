"""One attempt while it runs: its output, its deadline, its end."""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial

import attrs

from cronhare.domain.retries.crashes import TERM_TO_KILL
from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.domain.task_report import NOTHING_REPORTED
from cronhare.ports.runner import AttemptResult, Invocation, StopReason, Written

from ..output.attempt_log import AttemptLog, MessageReader, Output
from ..output.ipc_messages import Failed, Finished, Message, Progress, RefusedResult, Result
from ..output.pipes import CHUNK, Pipe
from ..warden.warden import Frame
from . import outcomes

#: Seconds between SIGTERM and SIGKILL.
GRACE = TERM_TO_KILL.total_seconds()
#: Seconds after which a killed task is given up: it hangs in the kernel and runs no more code.
KILL_TIMEOUT = 60.0
#: Seconds until the pipes are read. Watching three of them costs the loop as much as the rest of a
#: task, and most short tasks write nothing.
LISTEN_DELAY = 0.05
#: Small, as a message is more work than a line of output.
_IPC_CHUNK = 8 * 1024
_LAST_LINES = 20
_LAST_BYTES = 4 * 1024


class Attempt:
    """The live side of an invocation. *send_signal* reaches its process group."""

    def __init__(self, invocation: Invocation, send_signal: Callable[[int], None]) -> None:
        self.invocation = invocation
        self.pid: int | None = None
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[AttemptResult] = self._loop.create_future()
        self._send_signal = send_signal
        self._log = AttemptLog(invocation, self._loop.time)
        self._stdout, self._stderr = Output(self._log), Output(self._log)
        self._messages = MessageReader(self._log)
        self._pipes: list[Pipe] = []
        self._report, self._reports = NOTHING_REPORTED, 0
        self._failed: TaskError | None = None
        self._finished = False
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._hanging: asyncio.TimerHandle | None = None
        # Makes the outcome of an attempt that our signal ends, from its status if that is known.
        self._ending: Callable[[int | None], Outcome] | None = None
        self._winds_down = False

    def open_pipes(self) -> list[int]:
        """Make the pipes; return the ends for the task's stdout, stderr and IPC.

        Raises:
            OSError: too many files are open.
        """
        writers = []
        try:
            for sink, chunk in (
                (self._stdout.feed, CHUNK),
                (self._stderr.feed, CHUNK),
                (self._on_ipc, _IPC_CHUNK),
            ):
                self._pipes.append(Pipe(sink, chunk=chunk))
                writers.append(self._pipes[-1].writer)
        except OSError:
            for fd in writers:
                os.close(fd)
            raise
        return writers

    def started(self, pid: int) -> None:
        """Start the timeout of the main process, which now exists."""
        self.pid = pid
        self._log.hold_first_line(pid, "Process spawned (instant mode)")
        self._extend_deadline()
        if self._ending is None:
            self._timer = self._loop.call_later(LISTEN_DELAY, self._begin)

    def written(self, *, beyond: int) -> Written | None:
        """Return what it has written and reported so far, if its mark is beyond that."""
        stdout, stderr = self._stdout.capture, self._stderr.capture
        if stdout.bytes + stderr.bytes + self._reports <= beyond:
            return None
        return Written(
            execution_id=self.invocation.execution_id,
            attempt=self.invocation.attempt,
            stdout=stdout.result(),
            stderr=stderr.result(),
            report=self._report,
            reports=self._reports,
        )

    def stop(self, reason: StopReason) -> None:
        """End it early. The first reason counts, but a lost lease overrides any.

        So does each other one that of winding down.
        """
        stopped = partial(outcomes.stopped, reason)
        if reason is StopReason.LEASE_LOST:
            self._ending = stopped
            self._kill()
        elif reason is StopReason.WINDING_DOWN:
            if self._ending is None:
                self._ending, self._winds_down = stopped, True
                self._send_signal(signal.SIGTERM)
                self._listen()
        elif self._ending is None or self._winds_down:
            self._winds_down = False
            self._terminate(stopped)

    def kill(self) -> None:
        """Kill it, because we shut down."""
        if self._ending is None:
            self._ending = partial(outcomes.stopped, StopReason.INTERRUPTED)
        self._kill()

    def ended(self, report: Frame) -> None:
        """Settle it by the warden's *report*: none of its processes is left."""
        failure = report["failure"]
        if failure is not None:
            self._log.drop_first_line()
        self._read_the_rest()
        if count := report.get("left_running"):
            self._log.warn_of_left_running(count)
        if left := report.get("left"):
            self._log.warn(f"Processes of another user are left: {left}")
        if failure is not None:  # all that ran was the warden's child, before its exec
            ran = AttemptResult(outcome=outcomes.not_started(self.invocation.task, *failure))
        else:
            ran = self._result(self._outcome(report))
            ran = attrs.evolve(
                ran,
                peak_memory=report["max_rss"],
                cpu_seconds=report["cpu"],
                left_running=report["left_running"],
            )
        self._settle(ran)

    def lost(self, why: str) -> None:
        """Settle it without a status: its processes are gone, but the warden died before."""
        self._read_the_rest()
        outcome = outcomes.lost(why) if self._ending is None else self._ending(None)
        self._settle(self._result(outcome))

    def abandon(self, why: str, *, is_over: bool) -> None:
        """End it as lost, whatever its state. *is_over*: no report will come any more."""
        if self._ending is None:
            self._ending = lambda _: outcomes.lost(why)
        if not is_over:
            self._kill()
        elif not self.over.done():
            self.release()
            self.over.set_result(AttemptResult(outcome=self._ending(None), pid=self.pid))

    def release(self) -> None:
        """Let go of pipes and timers. Safe to repeat."""
        for timer in (self._timer, self._hanging):
            if timer is not None:
                timer.cancel()
        for pipe in self._pipes:
            pipe.close()

    def _outcome(self, report: Frame) -> Outcome:
        if self._ending is not None and report["signalled"]:
            return self._ending(report["status"])
        stderr_tail = self._stderr.capture.last_lines(count=_LAST_LINES, limit=_LAST_BYTES)
        return outcomes.of_exit(report["status"], failed=self._failed, stderr_tail=stderr_tail)

    def _result(self, outcome: Outcome) -> AttemptResult:
        stdout, stderr = self._stdout.capture.result(), self._stderr.capture.result()
        return AttemptResult(
            outcome=outcome, pid=self.pid, stdout=stdout, stderr=stderr, report=self._report
        )

    def _settle(self, ran: AttemptResult) -> None:
        self.release()
        self._log.info(_end_line(ran.outcome))
        if not self.over.done():
            self.over.set_result(ran)

    def _begin(self) -> None:
        self._log.log_first_line()
        self._listen()
        self._check_deadline()

    def _listen(self) -> None:
        for pipe in self._pipes:
            pipe.listen(self._loop)

    def _read_the_rest(self) -> None:
        for pipe in self._pipes:
            pipe.drain()
        self._stdout.end()
        self._stderr.end()
        self._handle(self._messages.end())

    def _on_ipc(self, chunk: bytes) -> None:
        self._handle(self._messages.feed(chunk))

    def _handle(self, messages: list[Message]) -> None:
        for message in messages:
            match message:
                case Finished():
                    if not self._finished:
                        self._log.info("Process finished successfully")
                    self._finished = True
                case Failed(error):
                    self._failed = error
                case Progress(value, text):
                    self._extend_deadline()
                    self._note(progress=value, progress_text=text)
                case Result(json):
                    self._note(result=json, result_problem=None)
                case RefusedResult(why):
                    self._note(result_problem=why)

    def _note(self, **reported: object) -> None:
        """Keep what the task reports: of each kind the last."""
        self._report = attrs.evolve(self._report, **reported)  # type: ignore[arg-type]
        self._reports += 1

    def _extend_deadline(self) -> None:
        self._deadline = self._loop.time() + self.invocation.task.timeout.total_seconds()

    def _check_deadline(self) -> None:
        if self._loop.time() < self._deadline:  # there was progress since the timer was set
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)
        elif self._ending is None:
            self._terminate(partial(outcomes.timed_out, self.invocation.task.timeout))

    def _terminate(self, ending: Callable[[int | None], Outcome]) -> None:
        self._ending = ending
        self._send_signal(signal.SIGTERM)
        self._listen()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(GRACE, self._kill)

    def _kill(self) -> None:
        self._send_signal(signal.SIGKILL)
        if self._hanging is None:  # from the first kill on: a lost lease repeats it
            self._hanging = self._loop.call_later(KILL_TIMEOUT, self._abandon_hanging)

    def _abandon_hanging(self) -> None:
        seconds = f"{KILL_TIMEOUT:.0f} s"
        text = f"was killed {seconds} ago and hangs in the kernel; it is waited for no longer"
        self._log.warn(f"Process {text}")
        self.abandon(text, is_over=True)


def _end_line(outcome: Outcome) -> str:
    if outcome.ending is Ending.SUCCEEDED:
        return "Process exited successfully (code: 0)"
    if outcome.signal is not None:
        return f"Process killed by signal {outcomes.signal_name(outcome.signal)}"
    if outcome.exit_code is not None:
        return f"Process exited with code {outcome.exit_code}"
    return f"Process {outcome.error.message if outcome.error else outcome.ending}"
