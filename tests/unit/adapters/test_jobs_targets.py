"""Who is told of events, alerts and at reminders, as a jobs file says it."""

from base64 import b64encode
from collections.abc import Callable
from datetime import time, timedelta
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.rules import AlertConditions, Deadline, Rule
from cronhare.domain.events.targets import (
    BY_DEFAULT,
    ByApprise,
    ByCommand,
    ByEmail,
    ByListener,
    ByWebhook,
    EventKind,
    Subscriptions,
    untellable,
)
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.task import TaskRef
from cronhare.domain.schedules.work import Reminder

HOOK_SECRET = "c4nary-c4nary-c4nary"

Subscribe = Callable[[str], Subscriptions]


@pytest.fixture
def subscribe(read: Callable[[str], JobsFile]) -> Subscribe:
    return lambda content: read(content).subscriptions


def test_a_file_says_who_is_told_of_what(subscribe: Subscribe, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"whsec_{b64encode(HOOK_SECRET.encode()).decode()}\n")

    said = subscribe(
        """
        source = "shop"
        [notify.hook]
        events = ["failed", "recovered"]
        webhook = "https://hooks.example.org/x"
        secret_file = "secret"
        timeout = "5s"
        [notify.mail]
        email = ["ops@example.org", "root"]
        [notify.listener]
        events = ["skipped"]
        python = "alerts:told"
        [notify.script]
        command = ["./tell", "me"]
        user = "ops"
        [defaults]
        notify = ["hook"]
        [classes.payments]
        notify = ["mail"]
        [tasks.charge]
        id = 7
        class = "payments"
        command = ["true"]
        user = "shop"
        [tasks.tidy]
        command = ["true"]
        on_failure = ["mail-me"]
        [schedules.charge]
        task = "charge"
        schedule = "@daily"
        [schedules.tidy]
        task = "tidy"
        schedule = "@daily"
        notify = ["listener", "script"]
        late_after = "10m"
        on_failure = ["page", "me"]
        """
    )

    names = [target.name for target in said.recipients(EventKind.FAILED, "charge", "charge")]
    assert names == ["mail"]
    told = {target.name: target for target in said.recipients(EventKind.FAILED, "tidy", "tidy")}
    assert set(told) == {"script", "schedules.tidy:on_failure"}
    assert [each.name for each in said.recipients(EventKind.SKIPPED, "tidy", None)] == ["listener"]
    hook = said.targets["hook"]
    address = WebAddress.parse("https://hooks.example.org/x")
    assert hook.means == ByWebhook(address=address, secret=HOOK_SECRET.encode())
    assert hook.events == {EventKind.FAILED, EventKind.RECOVERED}
    assert hook.timeout == timedelta(seconds=5)
    assert said.targets["mail"].means == ByEmail(to=("ops@example.org", "root"))
    assert said.targets["mail"].events == {*BY_DEFAULT, EventKind.RECOVERED}
    assert said.told_once == {"mail"}
    assert said.targets["listener"].means == ByListener(function="alerts:told", cwd=tmp_path)
    assert said.targets["script"].means == ByCommand(
        command=("./tell", "me"), cwd=tmp_path, user="ops"
    )
    assert told["schedules.tidy:on_failure"].means == ByCommand(
        command=("page", "me"), cwd=tmp_path
    )
    assert said.settings("tidy", None).late_after == timedelta(minutes=10)
    assert (said.source, said.refs[TaskRef("worker", 7)]) == ("shop", "charge")


def test_every_fault_is_told_at_once_and_no_secret(subscribe: Subscribe, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("c4nary")
    (tmp_path / "broken").write_text(f"whsec_{HOOK_SECRET}!")

    with pytest.raises(JobsFileInvalid) as refused:
        subscribe(
            f"""
            [notify.none]
            [notify.two]
            email = "a@b.example"
            python = "a:b"
            [notify."Ünder"]
            email = "a@b.example"
            [notify.injected]
            email = "a@b.example\\r\\nBcc: everyone@b.example"
            [notify.crowd]
            email = {["a@b.example"] * 17}
            [notify.inside]
            webhook = "http://{HOOK_SECRET}@127.0.0.1/"
            [notify.decimal]
            webhook = "http://2130706433/{HOOK_SECRET}"
            [notify.short]
            webhook = "https://a.example"
            secret_file = "short"
            [notify.broken]
            webhook = "https://a.example"
            secret_file = "broken"
            [notify.missing]
            webhook = "https://a.example"
            secret_file = "missing"
            [notify.code]
            python = "os.system('true'):x"
            [notify.when]
            email = "a@b.example"
            events = ["sometimes"]
            timeout = "1h"
            [tasks.t]
            command = ["true"]
            notify = ["opps"]
            on_failure = []
            [schedules.s]
            task = "t"
            schedule = "@daily"
            notify = "none"
            late_after = "0s"
            """
        )

    said = [str(fault) for fault in refused.value.faults]
    assert "c4nary" not in "\n".join(said)
    for part in (
        "notify.none: needs one of command, webhook, email, python, apprise, and has 0",
        "notify.two: needs one of command, webhook, email, python, apprise, and has 2",
        "notify.Ünder: name: 'Ünder' is not allowed".replace("'Ünder'", "'\\xdcnder'"),
        "is no address of mail",
        "notify.crowd: email: must be 1 to 16 addresses",
        "notify.inside: webhook: has a user or password",
        "notify.decimal: webhook: has a host that is a number",
        "notify.short: secret_file: must have 16 to 4,096 characters",
        "notify.broken: secret_file: begins with whsec_",
        "notify.missing: secret_file: cannot be read: No such file or directory",
        'is not a function, such as "alerts:told"',
        "notify.when: events: ",
        "notify.when: timeout: must be longer than nothing, and at most 15m",
        "tasks.t: notify: there is no notify.'opps'",
        "tasks.t: on_failure: [] is not a list of texts, at least one",
        'schedules.s: notify: "none" is not a list of 16 names at most',
        "schedules.s: late_after: must be longer than nothing",
    ):
        assert any(part in line for line in said), (part, said)


def test_any_target_may_hear_of_each_failure_or_of_the_first(subscribe: Subscribe) -> None:
    said = subscribe(
        """
        [notify.mail]
        email = "ops@example.org"
        repeat = "always"
        [notify.hook]
        events = ["failed"]
        webhook = "https://hooks.example.org/x"
        repeat = "first"
        """
    )

    assert said.told_once == {"hook"}
    assert said.targets["mail"].events == BY_DEFAULT
    assert said.targets["hook"].events == {EventKind.FAILED, EventKind.RECOVERED}


TARGETS = """
[notify.ops]
events = ["alert", "cleared"]
command = ["tell"]
[notify.boss]
events = ["failed", "alert"]
alerts = ["critical", "not-finished"]
command = ["tell"]
"""


def test_the_nearest_says_when_a_schedule_alerts_and_who_is_told(subscribe: Subscribe) -> None:
    said = subscribe(
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


PINGED = '[tasks.t]\ncommand = ["true"]\n[schedules.s]\ntask = "t"\nschedule = "@daily"\nping = '
DIGEST = '[notify.ops]\ncommand = ["tell"]\ndigest = '


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (f"{TARGETS}[defaults]\nnot_started_by = 5", "5 is neither a time after it is due such as"),
        (f'{TARGETS}[defaults]\nnot_started_by = "24:00"', 'nor a time of day "06:30", nor off'),
        (f"{TARGETS}[defaults]\nlonger_than_usual = 1", "1 is no number above 1, at most 1,000"),
        (f'{TARGETS}[defaults]\nleast_output = "many"', "is no size such as 100"),
        ('[defaults]\nnot_started_by = "5m"', "nobody would be told"),
        ('[notify.ops]\nalerts = ["node"]\ncommand = ["x"]', '"alert" is not in events'),
        ('[notify.ops]\nevents = ["alert"]\nalerts = ["nodes"]\ncommand = ["x"]', "alerts: "),
        *((f"{DIGEST}{wrong}", "digest: ") for wrong in ("0", "1001", "true")),
        *(
            (f"{PINGED}{wrong}", "schedules.s: ping: ")
            for wrong in (
                '"hc.example/c4nary"',
                "7",
                '"https://u:c4nary@hc.example"',
                '"file:///c4nary"',
            )
        ),
    ],
)
def test_what_cannot_be_told_is_refused(subscribe: Subscribe, content: str, fault: str) -> None:
    with pytest.raises(JobsFileInvalid) as refused:
        subscribe(f"{content}\n")

    assert fault in str(refused.value)
    assert "c4nary" not in str(refused.value)


def test_a_schedule_may_be_pinged_and_its_address_is_a_secret(subscribe: Subscribe) -> None:
    said = subscribe(
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


def test_people_are_told_of_many_together_and_programs_of_each(subscribe: Subscribe) -> None:
    said = subscribe(
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


SECRET = "c4naryc4naryc4nary"

Service = Callable[[str], ByApprise]


@pytest.fixture
def service(read: Callable[[str], JobsFile]) -> Service:
    def means(line: str) -> ByApprise:
        found = read(f"[notify.ops]\n{line}\n").subscriptions.targets["ops"].means
        assert isinstance(found, ByApprise)
        return found

    return means


def test_services_stand_in_the_file_in_one_beside_it_or_in_the_environment(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"slack://{SECRET}/x"
    (tmp_path / "services").write_text(f"# ours\n{url}\n\nntfys://topic\n")
    monkeypatch.setenv("SERVICES", f"{url} ntfys://topic")

    found = [
        service(line)
        for line in (
            f'apprise = "{url}"',
            f'apprise = ["{url}", "ntfys://topic"]',
            'apprise_file = "services"',
            'apprise_env = "SERVICES"',
        )
    ]

    assert [[each.url for each in one.services] for one in found] == [
        [url],
        *([[url, "ntfys://topic"]] * 3),
    ]
    assert SECRET not in repr(found)
    assert str(found[0].services[0]) == "slack://…"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (f'apprise = "{SECRET}"', 'apprise: must be like "slack://…"'),
        (f'apprise = "DBUS://{SECRET}"', "begins with dbus://, which leads to this machine's own"),
        (f'apprise = "json://{SECRET * 200}"', "is longer than 2,048 characters"),
        ('apprise_file = "missing"', "apprise_file: cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_service_is_refused_and_not_quoted(
    service: Service, line: str, fault: str
) -> None:
    with pytest.raises(JobsFileInvalid) as refused:
        service(line)

    said = str(refused.value)
    assert fault in said
    assert SECRET not in said


def test_a_variable_or_a_library_that_is_missing_is_no_fault_of_the_file(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "a variable that is not set" in str(service('apprise_env = "NOT_SET"').lacks)

    monkeypatch.setattr("cronhare.adapters.extras._is_there", lambda _: False)
    means = service('apprise = "ntfy://a"')

    assert "it needs the extra notify, which is not installed; run: " in str(means.lacks)
    said = read_jobs(tmp_path / "jobs.toml", policy=RetryPolicy()).subscriptions
    assert untellable(said, has_mail=False) == {"ops": means.lacks}


REMINDED = '[notify.ann]\nemail = "ann@example.org"\n[tasks.t]\nid = 5\n'


def test_a_task_that_reminds_is_a_reminder(read: Callable[[str], JobsFile]) -> None:
    [task] = read(f'{REMINDED}remind = ["ann", "ann"]\ntext = "Water"\nsubject = "Plants"\n').tasks

    assert task.ref == TaskRef("reminder", 5)
    assert task.reminder == Reminder(targets=("ann",), subject="Plants", text="Water")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('remind = ["ann"]', "text: is missing: what is to be said"),
        ('remind = ["ben"]\ntext = "x"', "remind: there is no notify.'ben'; there are ann"),
        ('remind = ["ann"]\ntext = "x"\nsubject = "a\\nb"', "subject: must be one line"),
        ('remind = ["ann"]\ntext = "x"\ncommand = ["y"]', "command: is for another kind of task"),
        ('command = ["true"]\ntext = "x"', "text: goes with remind; this task has none"),
    ],
)
def test_what_does_not_go_together_with_a_reminder_is_told(
    faults: Callable[[str], list[str]], fields: str, said: str
) -> None:
    [fault] = faults(f"{REMINDED}{fields}\n")

    assert said in fault
