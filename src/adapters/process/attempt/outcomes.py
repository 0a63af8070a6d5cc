"""Judging how an attempt ended, from all that is known about it. Pure."""

import errno
import os
import signal
from datetime import timedelta

import attrs

from cronhare.domain.retries.outcome import Ending, ErrorClass, Outcome, TaskError
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.printable import printable, shortened
from cronhare.ports.runner import StopReason

#: Why a command could not be started, where it may be different the next time.
_PASSING = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOSPC}
    | {errno.EINTR, errno.ETXTBSY, errno.ESTALE, errno.ETIMEDOUT}
)

#: In characters; all of its last lines are the failure's stack.
LONGEST_LAST_LINE = 200

_RIGHTS = (
    "the worker has to be root, or have CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN and "
    "CAP_DAC_OVERRIDE"
)

_STOPPED = {
    StopReason.CANCELLED: "cancelled",
    StopReason.INTERRUPTED: "interrupted: the worker shuts down",
    StopReason.LEASE_LOST: "ended: the worker lost its lease",
}


@attrs.frozen(kw_only=True)
class Exit:
    """How the main process went: *status* as wait(2) tells it."""

    status: int
    failed: TaskError | None = None  # what the task itself said
    stderr_tail: str | None = None  # the end of its stderr


def of_exit(end: Exit) -> Outcome:
    """The outcome of a task that ended by itself. What it said of itself weighs most."""
    code = os.waitstatus_to_exitcode(end.status)
    exit_code, signum = (code, None) if code >= 0 else (None, -code)
    if end.failed is not None:
        ending, error = Ending.FAILED, end.failed
    elif signum is not None:
        ending = Ending.CRASHED
        error = TaskError(message=f"killed by signal {signal_name(signum)}", stack=end.stderr_tail)
    elif code != 0:
        ending = Ending.FAILED
        message = f"exited with code {code}{_last_line(end.stderr_tail)}"
        error = TaskError(message=message, stack=end.stderr_tail)
    else:
        return Outcome(ending=Ending.SUCCEEDED, exit_code=0)
    return Outcome(ending=ending, exit_code=exit_code, signal=signum, error=error)


def _last_line(words: str | None) -> str:
    r"""What a command said last on its stderr, for its failure's sentence.

    >>> _last_line("usage: tar\ntar: \x1b[31mno such file\n\n")
    ': tar: \\x1b[31mno such file'
    """
    said = (words or "").strip()
    if not said:
        return ""
    last = said.splitlines()[-1].strip()
    return f": {shortened(printable(last), LONGEST_LAST_LINE)}"


def stopped(reason: StopReason, status: int | None) -> Outcome:
    """The outcome of a task that was ended for *reason*; *status* if its end was seen."""
    return _ended_by_us(reason.ending, _STOPPED[reason], status)


def timed_out(timeout: timedelta, status: int | None) -> Outcome:
    """The outcome of a task that was ended at its deadline; *status* if its end was seen."""
    return _ended_by_us(Ending.TIMED_OUT, f"timed out after {timeout.total_seconds():g} s", status)


def _ended_by_us(ending: Ending, message: str, status: int | None) -> Outcome:
    code = None if status is None else os.waitstatus_to_exitcode(status)
    return Outcome(
        ending=ending,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        error=TaskError(message=message),
    )


def not_started(task: Task, step: str, number: int) -> Outcome:
    """The outcome of a command that could not be started.

    *step* is where it failed: user, cwd, exec, or something before that is not the task's fault.
    """
    command = task.command[0]
    if step == "exec" and number == errno.ENOENT and "/" not in command:
        problem = f"command not found: {command}"
    else:
        subject = {
            "cwd": f"working directory {task.cwd}",
            "exec": f"command {command!r}",
            "user": f"user {task.user}: {_RIGHTS}",
        }
        problem = f"{subject.get(step, step)}: {os.strerror(number)}"
    passing = number in _PASSING or step not in ("cwd", "exec", "user")
    error = TaskError(
        message=f"cannot be started: {problem}",
        code=errno.errorcode.get(number),
        error_class=ErrorClass.TRANSIENT if passing else ErrorClass.PERMANENT,
    )
    return Outcome(ending=Ending.FAILED, error=error)


def user_unavailable(task: Task, why: str, error_class: ErrorClass) -> Outcome:
    """The outcome of a task whose user this host does not have, or did not find in time."""
    error = TaskError(
        message=f"cannot be started: user {task.user}: {why}", error_class=error_class
    )
    return Outcome(ending=Ending.FAILED, error=error)


def lost(why: str) -> Outcome:
    """The outcome of an attempt whose end nobody saw."""
    return Outcome(ending=Ending.LOST, error=TaskError(message=why))


def signal_name(signum: int) -> str:
    """`SIGKILL` for 9; a number that has no name as it is."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIG{signum}"
