"""One attempt while it runs: what it says, when it must end, how it ended."""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial

from cronhare.domain.retries.outcome import Ending, Outcome, TaskError
from cronhare.ports.runner import AttemptResult, Invocation, StopReason, Written

from ..output.attempt_log import AttemptLog, MessageReader, Output
from ..output.ipc_messages import Failed, Finished, Progress
from ..output.pipes import CHUNK, Pipe
from ..warden.warden import Frame
from . import outcomes

#: How long a task that was asked to end may take.
GRACE = 5.0
#: How long a task that was killed may take before its place is given away: it hangs in the kernel,
#: and will never run a line of its own again.
KILL_TIMEOUT = 60.0
#: How long what a task says waits in its pipes at first. To listen to three of them costs as much
#: as all else that the loop does for a task, and most of the short ones say nothing.
LISTEN_DELAY = 0.05
#: A message is more work than a line of output, and there are few of them.
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
        self._failed: TaskError | None = None
        self._finished = False
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._hanging: asyncio.TimerHandle | None = None
        # What the end is to be called, if it is our signal that brings it about.
        self._ending: Callable[[int | None], Outcome] | None = None

    def open_pipes(self) -> list[int]:
        """Make the pipes; give the ends for the task's stdout, stderr and IPC.

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
        """The main process exists; the clock of its timeout runs."""
        self.pid = pid
        self._log.hold_first_line(pid, "Process spawned (instant mode)")
        self._extend_deadline()
        if self._ending is None:
            self._timer = self._loop.call_later(LISTEN_DELAY, self._begin)

    def written(self, *, beyond: int) -> Written | None:
        """Give what it has written so far, if that is more than *beyond* bytes."""
        stdout, stderr = self._stdout.capture, self._stderr.capture
        if stdout.bytes + stderr.bytes <= beyond:
            return None
        return Written(
            execution_id=self.invocation.execution_id,
            attempt=self.invocation.attempt,
            stdout=stdout.result(),
            stderr=stderr.result(),
        )

    def stop(self, reason: StopReason) -> None:
        """End it early. The first reason counts, but a lost lease overrides all."""
        if reason is StopReason.LEASE_LOST:
            self._ending = partial(outcomes.stopped, reason)
            self._kill()
        elif self._ending is None:
            self._terminate(partial(outcomes.stopped, reason))

    def kill(self) -> None:
        """End it at once, because we shut down."""
        if self._ending is None:
            self._ending = partial(outcomes.stopped, StopReason.INTERRUPTED)
        self._kill()

    def ended(self, report: Frame) -> None:
        """Nothing of it runs any more; *report* is the warden's."""
        failure = report["failure"]
        if failure is not None:
            self._log.drop_first_line()
        self._read_the_rest()
        if left := report.get("left"):
            self._log.warn(f"Processes of another user are left: {left}")
        if failure is not None:  # what ran, if anything, was our own child on its way
            self._settle(
                AttemptResult(outcome=outcomes.not_started(self.invocation.task, *failure))
            )
        else:
            self._settle(
                AttemptResult(
                    outcome=self._judge(report),
                    pid=self.pid,
                    peak_memory=report["max_rss"],
                    cpu_seconds=report["cpu"],
                    stdout=self._stdout.capture.result(),
                    stderr=self._stderr.capture.result(),
                )
            )

    def lost(self, why: str) -> None:
        """Nothing of it runs any more, and nobody saw how it ended."""
        self._read_the_rest()
        stdout, stderr = self._stdout.capture.result(), self._stderr.capture.result()
        outcome = outcomes.lost(why) if self._ending is None else self._ending(None)
        self._settle(AttemptResult(outcome=outcome, pid=self.pid, stdout=stdout, stderr=stderr))

    def abandon(self, why: str, *, is_over: bool) -> None:
        """End it as lost, whatever state it is in. Of what *is_over* nothing more will come."""
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

    def _judge(self, report: Frame) -> Outcome:
        if self._ending is not None and report["signalled"]:
            return self._ending(report["status"])
        stderr_tail = self._stderr.capture.last_lines(count=_LAST_LINES, limit=_LAST_BYTES)
        return outcomes.of_exit(
            outcomes.Exit(
                status=report["status"], failed=self._failed, stderr_tail=stderr_tail or None
            )
        )

    def _settle(self, ran: AttemptResult) -> None:
        self.release()
        outcome = ran.outcome
        if outcome.ending is Ending.SUCCEEDED:
            self._log.info("Process exited successfully (code: 0)")
        else:
            self._log.info(_end_line(outcome))
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

    def _handle(self, messages: list[Finished | Failed | Progress]) -> None:
        for message in messages:
            match message:
                case Finished():
                    if not self._finished:
                        self._log.info("Process finished successfully")
                    self._finished = True
                case Failed(error):
                    self._failed = error
                case Progress():
                    self._extend_deadline()

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
        if self._hanging is None:  # the first one counts: a lost lease kills again and again
            self._hanging = self._loop.call_later(KILL_TIMEOUT, self._abandon_hanging)

    def _abandon_hanging(self) -> None:
        seconds = f"{KILL_TIMEOUT:.0f} s"
        text = f"was killed {seconds} ago and hangs in the kernel; it is waited for no longer"
        self._log.warn(f"Process {text}")
        self.abandon(text, is_over=True)


def _end_line(outcome: Outcome) -> str:
    """The log line of an end that was not a good one."""
    if outcome.signal is not None:
        return f"Process killed by signal {outcomes.signal_name(outcome.signal)}"
    if outcome.exit_code is not None:
        return f"Process exited with code {outcome.exit_code}"
    return f"Process {outcome.error.message if outcome.error else outcome.ending}"
