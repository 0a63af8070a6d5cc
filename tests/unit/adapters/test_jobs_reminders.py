"""Reminders in a jobs file, and what does not go together."""

from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs_text
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.reminder import Reminder
from cronhare.domain.schedules.task import TaskRef

TARGET = '[notify.ann]\nemail = "ann@example.org"\n[tasks.t]\nid = 5\n'


def read(text: str) -> JobsFile:
    return read_jobs_text(text, Path("/nowhere/jobs.toml"), policy=RetryPolicy())


def test_a_task_that_reminds_is_a_reminder() -> None:
    [task] = read(f'{TARGET}remind = ["ann", "ann"]\ntext = "Water"\nsubject = "Plants"\n').tasks

    assert task.ref == TaskRef("reminder", 5)
    assert task.reminder == Reminder(targets=("ann",), subject="Plants", text="Water")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('remind = ["ann"]', "text: is missing: what is to be said"),
        ('remind = ["ben"]\ntext = "x"', "remind: there is no notify.'ben'; there are ann"),
        ('remind = []\ntext = "x"', "remind: [] is not a list of 1 to 16 names of [notify.NAME]"),
        ('remind = ["ann"]\ntext = ""', "text: must be a text of 1 to 16,384 characters"),
        ('remind = ["ann"]\ntext = "a\\u0000"', "text: has a character that cannot be printed"),
        ('remind = ["ann"]\ntext = "x"\nsubject = "a\\nb"', "subject: must be one line"),
        ('remind = ["ann"]\ntext = "x"\ncommand = ["y"]', "command: is for another kind of task"),
        ('remind = ["ann"]\ntext = "x"\nurl = "https://a.b"', "url: is for another kind of task"),
        ('command = ["true"]\ntext = "x"', "text: goes with remind; this task has none"),
        ('type = "reminder"', "command: is missing; give a command, a url, python, or remind"),
    ],
)
def test_what_does_not_go_together_is_told(fields: str, said: str) -> None:
    with pytest.raises(JobsFileInvalid) as refused:
        read(f"{TARGET}{fields}\n")

    [fault] = [str(fault) for fault in refused.value.faults]
    assert said in fault
