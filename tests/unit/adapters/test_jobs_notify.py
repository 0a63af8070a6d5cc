"""Who is told of events, as a jobs file says it."""

from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid
from cronhare.domain.addresses import WebAddress
from cronhare.domain.events.targets import (
    BY_DEFAULT,
    NO_MAIL_SERVER,
    ByCommand,
    ByEmail,
    ByListener,
    ByWebhook,
    EventKind,
    Subscriptions,
    untellable,
)
from cronhare.domain.schedules.task import TaskRef

SECRET = "c4nary-c4nary-c4nary"

Read = Callable[[str], Subscriptions]


@pytest.fixture
def read(read: Callable[[str], JobsFile]) -> Read:
    return lambda content: read(content).subscriptions


def test_a_file_says_who_is_told_of_what(read: Read, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"whsec_{b64encode(SECRET.encode()).decode()}\n")

    said = read(
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
    assert hook.means == ByWebhook(address=address, secret=SECRET.encode())
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


def test_a_secret_that_is_not_set_here_is_no_fault_of_the_file(read: Read) -> None:
    hook = '[notify.ops]\nwebhook = "https://a.example"\nsecret_env = "NOT_SET_ANYWHERE"\n'
    mail = '[notify.ann]\nemail = "ann@example.org"\n'

    said = read(f'{hook}{mail}[tasks.t]\ncommand = ["true"]\n')

    why = "secret_env names 'NOT_SET_ANYWHERE', a variable that is not set"
    assert untellable(said, has_mail=True) == {"ops": why}
    assert untellable(said, has_mail=False) == {"ops": why, "ann": NO_MAIL_SERVER}


def test_every_fault_is_told_at_once_and_no_secret(read: Read, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("c4nary")
    (tmp_path / "broken").write_text(f"whsec_{SECRET}!")

    with pytest.raises(JobsFileInvalid) as refused:
        read(
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
            webhook = "http://{SECRET}@127.0.0.1/"
            [notify.decimal]
            webhook = "http://2130706433/{SECRET}"
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


def test_any_target_may_hear_of_each_failure_or_of_the_first(read: Read) -> None:
    said = read(
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
