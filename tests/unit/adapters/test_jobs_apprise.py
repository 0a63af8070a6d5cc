"""Services that Apprise tells, as a jobs file names them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs
from cronhare.domain.events.targets import ByApprise, untellable
from cronhare.domain.retries.policy import RetryPolicy

SECRET = "c4naryc4naryc4nary"

Read = Callable[[str], ByApprise]


@pytest.fixture
def read(read: Callable[[str], JobsFile]) -> Read:
    def means(line: str) -> ByApprise:
        found = read(f"[notify.ops]\n{line}\n").subscriptions.targets["ops"].means
        assert isinstance(found, ByApprise)
        return found

    return means


def test_services_stand_in_the_file_in_one_beside_it_or_in_the_environment(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"slack://{SECRET}/x"
    (tmp_path / "services").write_text(f"# ours\n{url}\n\nntfys://topic\n")
    monkeypatch.setenv("SERVICES", f"{url} ntfys://topic")

    found = [
        read(line)
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
        ("apprise = []", "apprise: must be 1 to 16 addresses of services"),
        (f'apprise = "{SECRET}"', 'apprise: must be like "slack://…"'),
        ('apprise = "dbus://"', "apprise: must be like"),
        (f'apprise = "DBUS://{SECRET}"', "begins with dbus://, which leads to this machine's own"),
        ('apprise = ["ntfy://a", "syslog://x"]', "apprise: address 2 begins with syslog://"),
        (f'apprise = "file:///{SECRET}"', "begins with file://"),
        (f'apprise = "json://a\\n{SECRET}"', "has a character that is none to be seen"),
        (f'apprise = "json://{SECRET * 200}"', "is longer than 2,048 characters"),
        ('apprise_file = "missing"', "apprise_file: cannot be read: No such file or directory"),
        ('apprise = "ntfy://a"\napprise_file = "b"', "needs one of command, webhook, email"),
        ('apprise = "ntfy://a"\nemail = "a@b.example"', "and has 2"),
    ],
)
def test_what_is_no_service_is_refused_and_not_quoted(read: Read, line: str, fault: str) -> None:
    with pytest.raises(JobsFileInvalid) as refused:
        read(line)

    said = str(refused.value)
    assert fault in said
    assert SECRET not in said


def test_a_variable_or_a_library_that_is_missing_is_no_fault_of_the_file(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "a variable that is not set" in str(read('apprise_env = "NOT_SET"').lacks)

    monkeypatch.setattr("cronhare.adapters.extras._is_there", lambda _: False)
    means = read('apprise = "ntfy://a"')

    assert "it needs the extra notify, which is not installed; run: " in str(means.lacks)
    said = read_jobs(tmp_path / "jobs.toml", policy=RetryPolicy()).subscriptions
    assert untellable(said, has_mail=False) == {"ops": means.lacks}
