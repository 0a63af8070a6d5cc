import errno
import signal
from datetime import timedelta

import pytest

from cronhare.adapters.process.attempt import not_started, of_exit
from cronhare.domain.retries.outcome import Ending, ErrorClass, TaskError
from cronhare.domain.schedules.task import Task, TaskRef

TASK = Task(name="report", ref=TaskRef("report", 25), command=("make-report",))
REFUSED = TaskError(message="refused")
EXIT_3 = 3 << 8  # as wait(2) tells an exit code


@pytest.mark.parametrize(
    ("status", "failed", "ending"),
    [
        (0, None, Ending.SNOOZED),
        (0, REFUSED, Ending.FAILED),
        (EXIT_3, None, Ending.FAILED),
        (signal.SIGSEGV, None, Ending.CRASHED),
    ],
)
def test_a_snooze_counts_if_the_task_then_ended_well(
    status: int, failed: TaskError | None, ending: Ending
) -> None:
    outcome = of_exit(status, failed=failed, snooze=timedelta(seconds=30))

    assert outcome.ending is ending


@pytest.mark.parametrize(
    ("step", "number", "error_class"),
    [
        ("exec", errno.ENOENT, ErrorClass.PERMANENT),
        ("exec", errno.EACCES, ErrorClass.PERMANENT),
        ("exec", errno.ENOEXEC, ErrorClass.PERMANENT),
        ("exec", errno.ENOMEM, ErrorClass.TRANSIENT),
        ("exec", errno.ETXTBSY, ErrorClass.TRANSIENT),
        ("cwd", errno.ENOENT, ErrorClass.PERMANENT),
        ("fork", errno.EAGAIN, ErrorClass.TRANSIENT),
    ],
)
def test_whether_a_start_may_be_tried_again_depends_on_what_was_wrong(
    step: str, number: int, error_class: ErrorClass
) -> None:
    outcome = not_started(TASK, step, number)

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert outcome.error.error_class is error_class
    assert outcome.error.code == errno.errorcode[number]


def test_a_commands_last_line_stands_beside_its_exit_code() -> None:
    outcome = of_exit(EXIT_3, stderr_tail="reading\ntar: \x1b[2Jgone\r\n \n")

    assert (outcome.ending, outcome.exit_code) == (Ending.FAILED, 3)
    assert outcome.error is not None
    assert outcome.error.message == "exited with code 3: tar: \\x1b[2Jgone"


def test_a_last_line_without_end_is_cut() -> None:
    outcome = of_exit(EXIT_3, stderr_tail="x" * 4096)

    assert outcome.error is not None
    assert len(outcome.error.message) < 300
