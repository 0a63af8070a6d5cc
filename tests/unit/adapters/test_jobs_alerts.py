"""Of what people are alerted, as a jobs file says it."""

from collections.abc import Callable
from datetime import time, timedelta

import pytest

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid
from cronhare.domain.events.rules import AlertConditions, Deadline, Rule
from cronhare.domain.events.targets import EventKind, Subscriptions

Read = Callable[[str], Subscriptions]

TARGETS = """
[notify.ops]
events = ["alert", "cleared"]
command = ["tell"]
[notify.boss]
events = ["failed", "alert"]
alerts = ["critical", "not-finished"]
command = ["tell"]
"""


@pytest.fixture
def read(read: Callable[[str], JobsFile]) -> Read:
    return lambda content: read(content).subscriptions


def test_the_nearest_says_when_a_schedule_alerts_and_who_is_told(read: Read) -> None:
    said = read(
        TARGETS
        + """
        [defaults]
        not_started_by = "5m"
        longer_than_usual = 3
        [tasks.books]
        command = ["true"]
        least_output = "2kB"
        [schedules.nightly]
        task = "books"
        schedule = "@daily"
        not_finished_by = "06:30"
        longer_than_usual = "off"
        notify = ["boss"]
        [schedules.hourly]
        task = "books"
        schedule = "@hourly"
        """
    )

    five = Deadline(after=timedelta(minutes=5))
    assert said.watched == {
        "nightly": AlertConditions(
            not_started_by=five,
            not_finished_by=Deadline(time_of_day=time(6, 30)),
            longer_than_usual=0.0,
            least_output=2_000,
        ),
        "hourly": AlertConditions(not_started_by=five, longer_than_usual=3.0, least_output=2_000),
    }
    assert [*said.watched_tasks.values()] == ["books"]

    def told(rule: Rule, schedule: str | None, kind: EventKind = EventKind.ALERT) -> list[str]:
        return [each.name for each in said.told_of_alert(kind, rule, schedule, None)]

    assert told(Rule.FAILED, None) == ["ops"]
    assert told(Rule.CRITICAL, None) == ["ops", "boss"]
    assert told(Rule.NOT_FINISHED, "nightly") == ["boss"]
    assert told(Rule.NOT_STARTED, "nightly") == []
    assert told(Rule.NOT_FINISHED, "hourly") == ["ops", "boss"]
    assert told(Rule.CRITICAL, None, EventKind.CLEARED) == ["ops"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("not_started_by = 5", "not_started_by: 5 is neither a time after it is due such as"),
        ('not_started_by = "24:00"', 'nor a time of day "06:30", nor off'),
        ('not_finished_by = "0s"', "not_finished_by: "),
        ('not_finished_by = "99999999d"', "not_finished_by: "),
        ("longer_than_usual = 1", "longer_than_usual: 1 is no number above 1, at most 1,000"),
        ("longer_than_usual = inf", "longer_than_usual: "),
        ("longer_than_usual = nan", "longer_than_usual: "),
        ("longer_than_usual = true", "longer_than_usual: true"),
        ('least_output = "many"', 'least_output: "many" is no size such as 100, "100B"'),
        ("least_output = -1", "least_output: "),
        ('least_output = "999999999999999G"', "least_output: "),
        ("least_output = [1]", "least_output: "),
    ],
)
def test_what_is_no_condition_is_refused(read: Read, line: str, fault: str) -> None:
    with pytest.raises(JobsFileInvalid) as refused:
        read(f"{TARGETS}\n[defaults]\n{line}\n")

    assert fault in str(refused.value)
    assert "defaults: " in str(refused.value)


def test_an_alert_of_which_nobody_is_told_is_refused(read: Read) -> None:
    with pytest.raises(JobsFileInvalid, match="nobody would be told"):
        read('[defaults]\nnot_started_by = "5m"\n')
    with pytest.raises(JobsFileInvalid, match='"alert" is not in events'):
        read('[notify.ops]\nalerts = ["node"]\ncommand = ["tell"]\n')
    with pytest.raises(JobsFileInvalid, match="alerts: "):
        read('[notify.ops]\nevents = ["alert"]\nalerts = ["nodes"]\ncommand = ["tell"]\n')


def test_a_schedule_may_be_pinged_and_its_address_is_a_secret(read: Read) -> None:
    said = read(
        """
        [tasks.t]
        command = ["true"]
        [schedules.s]
        task = "t"
        schedule = "@daily"
        ping = "https://hc.example/c4nary"
        """
    )

    [target] = said.pings.values()
    assert (target.name, target.in_order, said.is_empty) == ("schedules.s:ping", True, False)
    assert said.target("schedules.s:ping") is target
    assert "schedules.s:ping" in said.names
    assert "c4nary" not in repr(said)
    for wrong in ('"hc.example/c4nary"', "7", '"https://u:c4nary@hc.example"', '"file:///c4nary"'):
        with pytest.raises(JobsFileInvalid, match=r"schedules\.s: ping: ") as refused:
            read(
                '[tasks.t]\ncommand = ["true"]\n[schedules.s]\ntask = "t"\n'
                f'schedule = "@daily"\nping = {wrong}\n'
            )
        assert "c4nary" not in str(refused.value)


def test_people_are_told_of_many_together_and_programs_of_each(read: Read) -> None:
    said = read(
        """
        [notify.people]
        email = "ops@example.org"
        [notify.chat]
        apprise = "ntfy://topic"
        digest = "off"
        [notify.program]
        command = ["tell"]
        [notify.other]
        command = ["tell"]
        digest = 20
        """
    )

    found = {name: each.digest for name, each in said.targets.items()}
    assert found == {"people": 5, "chat": 0, "program": 0, "other": 20}
    for wrong in ("0", "-1", "1001", "true", '"on"', "1.5"):
        with pytest.raises(JobsFileInvalid, match="digest: "):
            read(f'[notify.ops]\ncommand = ["tell"]\ndigest = {wrong}\n')
