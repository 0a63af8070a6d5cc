"""Topics in a jobs file: who tells, who listens, and what does not go together."""

from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs_text
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.catalog import NoListener, ref_of_topic

PATH = Path("/nowhere/jobs.toml")
LISTENER = '[tasks.t]\nid = 1\ncommand = ["true"]\n'


def read(text: str) -> JobsFile:
    return read_jobs_text(text, PATH, policy=RetryPolicy())


def faults(text: str) -> list[str]:
    with pytest.raises(JobsFileInvalid) as refused:
        read(text)
    return [str(fault) for fault in refused.value.faults]


def schedule(fields: str) -> str:
    return f'{LISTENER}[schedules.s]\nschedule = "@daily"\n{fields}\n'


def test_a_schedule_names_a_topic_with_a_payload_and_a_task_listens() -> None:
    file = read(
        """
        [tasks.charge]
        command = ["./charge"]
        topics = ["orders.due", "orders.overdue", "orders.due"]

        [schedules.due]
        topic = "orders.due"
        payload = { order = 7 }
        no_listener = "fail"
        date_time = 2026-05-01T08:00:00
        timezone = "Europe/Berlin"
        """
    )

    [task], [draft] = file.tasks, file.drafts
    assert task.topics == ("orders.due", "orders.overdue")
    assert (draft.topic, draft.params) == ("orders.due", '{"order":7}')
    assert (draft.no_listener, draft.task_name) == (NoListener.FAIL, None)
    assert draft.task == ref_of_topic("orders.due")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("", ["task: is missing"]),
        ('topic = "a"\ntask = "t"', ["topic: a schedule names a task or a topic, not both"]),
        ('topic = "a"\nparams = {}', ["params: of an event are its payload: call them so"]),
        ('task = "t"\npayload = {}', ["payload: is for a topic; a task has params"]),
        ('topic = "a"\npayload = [1]', ["payload: must be a table, which listeners are given"]),
        ('topic = "a"\npayload = { a = nan }', ["payload.a: nan is no number in JSON"]),
        ('topic = "a b"', ['topic: "a b" is not a topic: letters, digits, and . _ : / -']),
        (f'topic = "{"t" * 256}"', ["is not a topic: letters, digits"]),
        ('topic = "orders.*"', ['topic: "orders.*" is not a topic']),
        ('topic = ""', ['topic: "" is not a topic']),
        ('topic = "a\\u0000"', ["is not a topic"]),
        ('topic = "a"\nno_listener = "never"', ['no_listener: "never" is not one of "complete"']),
        ('task = "t"\nno_listener = "fail"', ["no_listener: is for a topic, or for a task of"]),
    ],
)
def test_what_does_not_go_together_is_told(fields: str, said: list[str]) -> None:
    found = faults(schedule(fields))

    assert len(found) == len(said)
    for line, part in zip(found, said, strict=True):
        assert part in line, found


def test_one_task_of_a_file_listens_to_a_topic() -> None:
    both = f'{LISTENER}topics = ["a", "b"]\n[tasks.u]\ncommand = ["true"]\ntopics = ["b"]\n'

    assert faults(both) == ["tasks.u: topics: tasks.t listens to b already; give each its own"]
