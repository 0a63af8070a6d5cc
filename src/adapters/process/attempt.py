"""One attempt while it runs: its output, its deadline, its end, and the outcome told of it."""

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Iterator

from cronhare.domain.retries.outcome import (
    TERM_TO_KILL,
    Ending,
    ErrorClass,
    Outcome,
    TaskError,
    snoozed,
)
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.printable import printable, shortened
from cronhare.ports.runner import AttemptResult, Invocation, StopReason, TaskReport, Written

from .environment import UserUnavailable
from .messages import Message, MessageReader
from .output import CHUNK, AttemptLog, LentPipe, Output, Pipe
from .warden import Frame

#: Seconds between SIGTERM and SIGKILL.
GRACE = TERM_TO_KILL.total_seconds()
#: Seconds after which a killed task is given up: it hangs in the kernel and runs no more code.
KILL_TIMEOUT = 60.0
#: Seconds until the pipes are read. Watching three of them costs the loop as much as the rest of a
#: task, and most short tasks write nothing.
LISTEN_DELAY = 0.05
#: Small, as a message is more work than a line of output.
_IPC_CHUNK = 8 * 1024
#: Seconds between two looks at the memory of a task that has a limit for it.
WATCHED = 0.25
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LAST_LINES = 20
_LAST_BYTES = 4 * 1024

RIGHTS = "the worker has to be root, or have CAP_SETUID, CAP_SETGID, CAP_KILL and CAP_CHOWN"


class Attempt:
    """The live side of an invocation. *send_signal* reaches its process group.

    It is killed if its process takes more than *memory* bytes.
    """

    def __init__(
        self,
        invocation: Invocation,
        send_signal: Callable[[int], None],
        *,
        memory: int | None = None,
    ) -> None:
        self.invocation = invocation
        self.memory = memory
        self.held_before = 0  # bytes that its process held more than at first when it began
        self.pid: int | None = None
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[AttemptResult] = self._loop.create_future()
        self._send_signal = send_signal
        self._log = AttemptLog(invocation, self._loop.time)
        self._stdout, self._stderr = Output(self._log), Output(self._log)
        self._messages = MessageReader(self._log)
        self._pipes: list[Pipe] = []
        self._said, self._reports = Message(), 0
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._hanging: asyncio.TimerHandle | None = None
        # What becomes of it if it is our signal that ends it, and why.
        self._ending: tuple[Ending, str] | None = None
        self._winds_down = False
        self._stack: str | None = None
        self._memory_timer: asyncio.TimerHandle | None = None

    def open_pipes(self) -> Iterator[int]:
        for sink, chunk in (
            (self._stdout.feed, CHUNK),
            (self._stderr.feed, CHUNK),
            (lambda chunk: self._handle(self._messages.feed(chunk)), _IPC_CHUNK),
        ):
            self._pipes.append(Pipe(sink, chunk=chunk))
            yield self._pipes[-1].writer

    def borrow(self, *pipes: LentPipe) -> None:
        """Read its output from the pipes of a child that has others after it."""
        for pipe, output in zip(pipes, (self._stdout, self._stderr), strict=True):
            pipe.lend(output.feed)
            self._pipes.append(pipe)

    def return_pipes(self) -> None:
        """It has not begun in that child, and will in another."""
        self.release()
        self._pipes, self.pid = [], None

    def report(self, lines: bytes) -> None:
        self._handle(self._messages.feed(lines))

    def write(self, fd: int, data: bytes) -> None:
        (self._stdout if fd == 1 else self._stderr).feed(data)

    def condemn(self, message: str | None, stack: str) -> None:
        """Say why it is killed with the child that it has for itself no longer.

        *message* counts unless it has been told why already.
        """
        self._stack = stack or None
        if message is not None and self._ending is None:
            self._ending = Ending.FAILED, message

    def hand_back(self, why: str) -> None:
        """Settle it as ended by what is no fault of its own: that costs no attempt.

        Without a pid an interruption counts as none that it may have asked for. A cancel and a lost
        lease remain what they are.
        """
        if self._ending is None or self._ending[0] is Ending.TIMED_OUT:
            self._ending, self.pid = (Ending.INTERRUPTED, why), None
        self.lost(why)

    def started(self, pid: int) -> None:
        """Start the timeout of the main process, which now exists."""
        self.pid = pid
        self._log.spawned(pid)
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
            report=TaskReport(**self._said.report),
            reports=self._reports,
        )

    def stop(self, reason: StopReason) -> None:
        """End it early. The first reason counts, but a lost lease overrides any.

        So does each other one that of winding down.
        """
        ending = reason.ending, reason.said
        if reason is StopReason.LEASE_LOST:
            self._ending = ending
            self._kill()
        elif reason is StopReason.WINDING_DOWN:
            if self._ending is None:
                self._ending, self._winds_down = ending, True
                self._send_signal(signal.SIGTERM)
                self._listen()
        elif self._ending is None or self._winds_down:
            self._winds_down = False
            self._terminate(ending)

    def kill(self) -> None:
        if self._ending is None:
            self._ending = Ending.INTERRUPTED, StopReason.INTERRUPTED.said
        self._kill()

    def ended(self, report: Frame) -> None:
        """Settle it by the warden's *report*: none of its processes is left."""
        failure = report["failure"]
        self._read_the_rest(is_printed=report.get("printed", True))
        if count := report.get("left_running"):
            self._log.warn_of_left_running(count)
        if left := report.get("left"):
            self._log.warning(f"Processes of another user are left: {left}")
        if failure is not None:  # all that ran was the warden's child, before its exec
            self._settle(AttemptResult(outcome=not_started(self.invocation.task, *failure)))
        elif self._ending is not None and report["signalled"]:
            outcome = ended_by_us(*self._ending, report["status"], stack=self._stack)
            self._settle(self._result(outcome, report))
        else:
            tail = self._stderr.capture.last_lines(count=_LAST_LINES, limit=_LAST_BYTES)
            outcome = of_exit(report["status"], self._said, stderr_tail=tail)
            self._settle(self._result(outcome, report))

    def lost(self, why: str) -> None:
        """Settle it without a status: its processes are gone, but the warden died before."""
        self._read_the_rest()
        self._settle(self._result(self._unseen_end(why), {}))

    def abandon(self, why: str, *, is_over: bool) -> None:
        """End it as lost, whatever its state. *is_over*: no report will come any more."""
        if not is_over:
            self._ending = self._ending or (Ending.LOST, why)
            self._kill()
        elif not self.over.done():
            self.release()
            self.over.set_result(AttemptResult(outcome=self._unseen_end(why), pid=self.pid))

    def release(self) -> None:
        """Let go of pipes and timers. Safe to repeat."""
        for timer in (self._timer, self._hanging, self._memory_timer):
            if timer is not None:
                timer.cancel()
        for pipe in self._pipes:
            pipe.close()

    def _unseen_end(self, why: str) -> Outcome:
        return ended_by_us(*(self._ending or (Ending.LOST, why)), None)

    def _result(self, outcome: Outcome, report: Frame) -> AttemptResult:
        return AttemptResult(
            outcome=outcome,
            pid=self.pid,
            peak_memory=report.get("max_rss"),
            cpu_seconds=report.get("cpu"),
            left_running=report.get("left_running"),
            stdout=self._stdout.capture.result(),
            stderr=self._stderr.capture.result(),
            report=TaskReport(**self._said.report),
        )

    def _settle(self, ran: AttemptResult) -> None:
        self.release()
        self._log.info(_end_line(ran.outcome))
        if not self.over.done():
            self.over.set_result(ran)

    def _begin(self) -> None:
        self._listen()
        self._check_deadline()
        if self.memory is not None:
            self._check_memory(self.memory)

    def _check_memory(self, limit: int) -> None:
        if self._ending is None and resident(self.pid) - self.held_before > limit:
            self._ending = Ending.FAILED, f"took more memory than its {say_size(limit)}"
            self._kill()
        else:
            self._memory_timer = self._loop.call_later(WATCHED, self._check_memory, limit)

    def _listen(self) -> None:
        for pipe in self._pipes:
            pipe.listen(self._loop)

    def _read_the_rest(self, *, is_printed: bool = True) -> None:
        for pipe in self._pipes if is_printed else ():
            pipe.drain()
        self._stdout.end()
        self._stderr.end()
        self._handle(self._messages.end())

    def _handle(self, messages: list[Message]) -> None:
        for message in messages:
            if message.finished and not self._said.finished:
                self._log.info("Process finished successfully")
            if "progress" in message.report:
                self._extend_deadline()
            self._reports += bool(message.report)
            self._said = self._said.then(message)

    def _extend_deadline(self) -> None:
        self._deadline = self._loop.time() + self.invocation.task.timeout.total_seconds()

    def _check_deadline(self) -> None:
        if self._loop.time() < self._deadline:  # there was progress since the timer was set
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)
        elif self._ending is None:
            seconds = self.invocation.task.timeout.total_seconds()
            self._terminate((Ending.TIMED_OUT, f"timed out after {seconds:g} s"))

    def _terminate(self, ending: tuple[Ending, str]) -> None:
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
        self._log.warning(f"Process {text}")
        self.abandon(text, is_over=True)


def _end_line(outcome: Outcome) -> str:
    if outcome.ending in {Ending.SUCCEEDED, Ending.SNOOZED}:
        return "Process exited successfully (code: 0)"
    if outcome.signal is not None:
        return f"Process killed by signal {signal_name(outcome.signal)}"
    if outcome.exit_code is not None:
        return f"Process exited with code {outcome.exit_code}"
    return f"Process {outcome.error.message if outcome.error else outcome.ending}"


#: Errors that may pass until the next attempt.
_TRANSIENT = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOSPC}
    | {errno.EINTR, errno.ETXTBSY, errno.ESTALE, errno.ETIMEDOUT}
)

#: Characters of stderr's last line in the failure's sentence; its stack has all the last lines.
LONGEST_LAST_LINE = 200

#: Where a signal that was not ours comes from, as a rule.
_PROBABLY: dict[int, str] = {
    signal.SIGKILL: ": by the kernel, out of memory, unless somebody did",
    signal.SIGXCPU: ": by the kernel, over its limit of CPU time",
    signal.SIGXFSZ: ": by the kernel, over its limit for the size of a file",
}

_NO_INTERPRETER = (
    "the file is there, but the interpreter that its #! line names is not{}; a carriage return at "
    "the end of that line, as Windows writes it, counts as part of the name"
)
_NO_PROGRAM = (
    "it has no #! line and is no program of this machine: begin it with a line such as #!/bin/sh, "
    'or name what runs it: command = ["sh", "…"]'
)


def of_exit(status: int, said: Message, *, stderr_tail: str = "") -> Outcome:
    """The outcome of a task that ended by itself, with *status* as wait(2) gives it.

    A failure that it has *said* outweighs its status; a snooze counts if it ended well.
    *stderr_tail* may be empty.
    """
    stack = stderr_tail or None
    exit_code, signum = _code_and_signal(status)
    if said.failed is not None:
        ending, error = Ending.FAILED, said.failed
    elif signum is not None:
        message = f"killed by signal {signal_name(signum)}{_PROBABLY.get(signum, '')}"
        ending, error = Ending.CRASHED, TaskError(message=message, stack=stack)
    elif exit_code:
        message = f"exited with code {exit_code}{_last_line(stderr_tail)}"
        ending, error = Ending.FAILED, TaskError(message=message, stack=stack)
    elif said.snooze is not None:
        return snoozed(said.snooze)
    else:
        return Outcome(ending=Ending.SUCCEEDED, exit_code=0)
    return Outcome(ending=ending, exit_code=exit_code, signal=signum, error=error)


def _last_line(stderr: str) -> str:
    r"""The last line of stderr, for a failure's sentence.

    >>> _last_line("usage: tar\ntar: \x1b[31mno such file\n\n")
    ': tar: \\x1b[31mno such file'
    """
    lines = stderr.strip().splitlines()
    return f": {shortened(printable(lines[-1].strip()), LONGEST_LAST_LINE)}" if lines else ""


def ended_by_us(
    ending: Ending, message: str, status: int | None, *, stack: str | None = None
) -> Outcome:
    """The outcome of a task that we ended; *status* if its end was seen."""
    exit_code, signum = (None, None) if status is None else _code_and_signal(status)
    error = TaskError(message=message, stack=stack)
    return Outcome(ending=ending, exit_code=exit_code, signal=signum, error=error)


def resident(pid: int | None) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - a name of the kernel's
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def say_size(size: int) -> str:
    """Say a number of bytes.

    >>> say_size(512 * 1024**2), say_size(1500)
    ('512 MB', '1500 bytes')
    """
    return f"{size >> 20} MB" if size >> 20 and not size % (1 << 20) else f"{size} bytes"


def _code_and_signal(status: int) -> tuple[int, None] | tuple[None, int]:
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, -code)


def not_started(task: Task, step: str, number: int) -> Outcome:
    """The outcome of a command that could not be started.

    *step* failed with errno *number*: user, cwd, exec, interpreter (the command is there, and what
    its first line names is not; that line may follow), or one that is not the task's fault.
    """
    step, _, first_line = step.partition(" ")
    command = task.command[0] if task.command else task.name
    subject = {
        "cwd": f"working directory {task.cwd}",
        "exec": f"command {command!r}",
        "user": f"user {task.user}: {RIGHTS}",
    }
    if step == "interpreter":
        problem = f"command {command!r}: {_NO_INTERPRETER.format(first_line and f': {first_line}')}"
    elif step == "exec" and number == errno.ENOENT and "/" not in command:
        problem = f"command not found: {command}"
    elif step == "exec" and number == errno.ENOEXEC:
        problem = f"command {command!r}: {_NO_PROGRAM}"
    else:
        problem = f"{subject.get(step, step)}: {os.strerror(number)}"
    is_transient = number in _TRANSIENT or step not in (*subject, "interpreter")
    error = TaskError(
        message=f"cannot be started: {problem}",
        code=errno.errorcode.get(number),
        error_class=ErrorClass.TRANSIENT if is_transient else ErrorClass.PERMANENT,
    )
    return Outcome(ending=Ending.FAILED, error=error)


def user_unavailable(task: Task, error: UserUnavailable) -> Outcome:
    message = f"cannot be started: user {task.user}: {error}"
    told = TaskError(message=message, code=error.code, error_class=error.error_class)
    return Outcome(ending=Ending.FAILED, error=told)


def signal_name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIG{signum}"
