"""The outcome of an attempt, from all that is known about its end. Pure."""

import errno
import os
import signal
from datetime import timedelta

from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.printable import printable, shortened
from cronhare.ports.runner import StopReason

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

RIGHTS = (
    "the worker has to be root, or have CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN and "
    "CAP_DAC_OVERRIDE"
)

_NO_INTERPRETER = (
    "the file is there, but the interpreter that its #! line names is not{}; a carriage return at "
    "the end of that line, as Windows writes it, counts as part of the name"
)
_NO_PROGRAM = (
    "it has no #! line and is no program of this machine: begin it with a line such as #!/bin/sh, "
    'or name what runs it: command = ["sh", "…"]'
)

_STOPPED = {
    StopReason.CANCELLED: "cancelled",
    StopReason.INTERRUPTED: "interrupted: the worker shuts down",
    StopReason.WINDING_DOWN: "interrupted: the worker shuts down",
    StopReason.LEASE_LOST: "ended: the worker lost its lease",
}


def of_exit(status: int, *, failed: TaskError | None = None, stderr_tail: str = "") -> Outcome:
    """The outcome of a task that ended by itself, with *status* as wait(2) gives it.

    *failed* is the task's own report, which outweighs its status; *stderr_tail* may be empty.
    """
    stack = stderr_tail or None
    exit_code, signum = _code_and_signal(status)
    if failed is not None:
        ending, error = Ending.FAILED, failed
    elif signum is not None:
        message = f"killed by signal {signal_name(signum)}{_PROBABLY.get(signum, '')}"
        ending, error = Ending.CRASHED, TaskError(message=message, stack=stack)
    elif exit_code:
        message = f"exited with code {exit_code}{_last_line(stderr_tail)}"
        ending, error = Ending.FAILED, TaskError(message=message, stack=stack)
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


def stopped(reason: StopReason, status: int | None) -> Outcome:
    """The outcome of a task that we ended for *reason*; *status* if its end was seen."""
    return _ended_by_us(reason.ending, _STOPPED[reason], status)


def timed_out(timeout: timedelta, status: int | None) -> Outcome:
    """The outcome of a task that we ended at its deadline; *status* if its end was seen."""
    return _ended_by_us(Ending.TIMED_OUT, f"timed out after {timeout.total_seconds():g} s", status)


def _ended_by_us(ending: Ending, message: str, status: int | None) -> Outcome:
    exit_code, signum = (None, None) if status is None else _code_and_signal(status)
    error = TaskError(message=message)
    return Outcome(ending=ending, exit_code=exit_code, signal=signum, error=error)


def _code_and_signal(status: int) -> tuple[int, None] | tuple[None, int]:
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, -code)


def not_started(task: Task, step: str, number: int) -> Outcome:
    """The outcome of a command that could not be started.

    *step* failed with errno *number*: user, cwd, exec, interpreter (the command is there, and what
    its first line names is not; that line may follow), or one that is not the task's fault.
    """
    step, _, first_line = step.partition(" ")
    command = task.command[0]
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


def user_unavailable(task: Task, why: str, error_class: ErrorClass) -> Outcome:
    """The outcome of a task whose user this host does not have, or did not find in time."""
    message = f"cannot be started: user {task.user}: {why}"
    return Outcome(ending=Ending.FAILED, error=TaskError(message=message, error_class=error_class))


def lost(why: str) -> Outcome:
    """The outcome of an attempt whose end was not seen."""
    return Outcome(ending=Ending.LOST, error=TaskError(message=why))


def signal_name(signum: int) -> str:
    """`SIGKILL` for 9; a number that has no name as it is."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIG{signum}"
