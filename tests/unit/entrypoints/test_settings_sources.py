"""Settings from the environment, from files that it names, and from a settings file."""

import os
from pathlib import Path

import pytest

from cronhare.domain.environment import ATTEMPT_VARIABLES
from cronhare.entrypoints.settings.settings import Settings, SettingsInvalid

SECRET = "c4nary"
URL = f"mysql://u:{SECRET}@127.0.0.1/cron"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in [name for name in os.environ if name.startswith("CRON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("cronhare.entrypoints.settings.sources.SYSTEM_FILE", tmp_path / "etc.toml")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def settings_file(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def faults() -> str:
    with pytest.raises(SettingsInvalid) as caught:
        Settings.read()
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_settings_file_has_every_kind_of_value(here: Path) -> None:
    text = (
        'concurrency = 4\nqueues = ["a:3", "b"]\nfailed_monitor = false\nlog_format = "json"\n'
        "retry_delay_multiplier = 1.5\n"
    )
    settings_file(here / "cronhare.toml", text)

    settings = Settings.read()

    assert (settings.concurrency, settings.queues) == (4, ("a", "b"))
    assert settings.served == {"a": 3, "b": 1}
    assert (settings.failed_monitor, settings.log_format) == (False, "json")
    assert settings.retry_delay_multiplier == 1.5
    assert settings.sources.found["concurrency"].source == "cronhare.toml"


def test_the_environment_goes_before_the_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings_file(here / "cronhare.toml", "max_retries = 7\nconcurrency = 5\n")
    monkeypatch.setenv("CRON_MAX_RETRIES", "9")

    settings = Settings.read()

    assert (settings.max_retries, settings.concurrency) == (9, 5)
    assert settings.sources.found["max_retries"].source == "environment"


def test_the_first_file_that_is_there_counts_alone(here: Path, tmp_path: Path) -> None:
    settings_file(tmp_path / "etc.toml", "max_retries = 1\nconcurrency = 1\n")
    system = Settings.read()
    settings_file(tmp_path / "config/cronhare/cronhare.toml", "max_retries = 2\n")
    own = Settings.read()
    settings_file(here / "cronhare.toml", "max_retries = 3\n")
    nearest = Settings.read()

    assert (system.max_retries, own.max_retries, nearest.max_retries) == (1, 2, 3)
    assert (system.concurrency, own.concurrency) == (1, None)


def test_a_file_that_is_named_is_the_only_one(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file(here / "cronhare.toml", "concurrency = 5\n")
    named = settings_file(tmp_path / "other.toml", "max_retries = 7\n")
    monkeypatch.setenv("CRON_CONFIG", str(named))

    settings = Settings.read()

    assert (settings.max_retries, settings.concurrency) == (7, None)

    named.unlink()
    assert f"{named} cannot be read: No such file" in faults()


def test_a_path_in_a_file_begins_at_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'jobs = "jobs.toml"\ndatabase_url = "sqlite:///ledger.db"\nbroker_url_file = "broker"\n'
    settings_file(tmp_path / "shop/cronhare.toml", text)
    settings_file(tmp_path / "shop/broker", "amqp://rabbit/\n")
    monkeypatch.setenv("CRON_CONFIG", str(tmp_path / "shop/cronhare.toml"))

    settings = Settings.read()

    assert settings.jobs == tmp_path / "shop/jobs.toml"
    assert settings.database_url == f"sqlite:///{tmp_path}/shop/ledger.db"
    assert settings.broker_url == "amqp://rabbit/"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("concurency = 4", "'concurency' is not known; did you mean concurrency?"),
        ("[settings]\nconcurrency = 4", "'settings' is not known"),
        ("concurrency = 0", "concurrency in cronhare.toml: must be a whole number from 1 to 1,000"),
        ("concurrency = [1]", "concurrency must be a text, a number, true, false or a list"),
        (f'database_url = "{SECRET}', "is not TOML (at end of document)"),
        (f"database_url = {SECRET}", "is not TOML (at line 1, column 16)"),
        (f'broker_url = "amqp://u:{SECRET}@h:x/"', "broker_url in cronhare.toml: "),
        ('jobs = "a"\njobs_file = "b"', "jobs_file: jobs is there as well"),
        ('broker_url_file = "nowhere"', "broker_url_file in cronhare.toml: nowhere cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(here: Path, text: str, why: str) -> None:
    settings_file(here / "cronhare.toml", text)

    assert why in faults()


def test_a_file_with_a_password_is_closed_to_others(here: Path) -> None:
    path = settings_file(here / "cronhare.toml", f'database_url = "{URL}"\n', 0o644)
    assert "can be read by every user of this machine, and has database_url" in faults()

    path.chmod(0o640)
    assert Settings.read().database_url == URL


@pytest.mark.parametrize("key", [URL, "A" * 8, SECRET * 9], ids=["URL", "capitals", "too long"])
def test_a_key_that_could_be_a_password_is_not_quoted(here: Path, key: str) -> None:
    settings_file(here / "cronhare.toml", f'"{key}" = 1')

    said = faults()

    assert "a key is no name of a setting" in said
    assert key not in said


def test_a_file_that_everybody_may_write_is_refused(here: Path) -> None:
    settings_file(here / "cronhare.toml", "concurrency = 4\n", 0o646)

    assert "can be written by every user" in faults()


def test_a_variable_that_means_nothing_is_told_with_what_was_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CRON_CONCURENCY", "4")
    for name in ATTEMPT_VARIABLES:  # a task calls us
        monkeypatch.setenv(name, "4")
    monkeypatch.setenv("CRON_DATABASE_URL_FIL", "x")

    assert tuple(Settings.read().sources.say_unknown()) == (
        "CRON_CONCURENCY means nothing here; did you mean CRON_CONCURRENCY?",
        "CRON_DATABASE_URL_FIL means nothing here; did you mean CRON_DATABASE_URL_FILE?",
    )


@pytest.mark.parametrize("name", ["CRON_DATABASE_URL", "CRON_BROKER_URL"])
def test_a_variable_and_its_file_are_not_both_given(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv(f"{name}_FILE", "/x")

    assert f"{name}_FILE is set as well" in faults()


def test_every_file_that_cannot_be_read_is_told_at_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "bytes").write_bytes(b"\xff\xfe")
    (here / "empty").write_text("\n")
    for name, file in [
        ("DATABASE_URL", "missing"),
        ("BROKER_URL", "bytes"),
        ("JOBS", "."),
        ("QUEUES", "empty"),
    ]:
        monkeypatch.setenv(f"CRON_{name}_FILE", file)

    said = faults()

    assert "CRON_DATABASE_URL_FILE: missing cannot be read: No such file" in said
    assert "CRON_BROKER_URL_FILE: bytes is no UTF-8 text" in said
    assert "CRON_JOBS_FILE: . " in said
    assert "CRON_QUEUES_FILE: empty is empty" in said


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("MAX_RETRIES", "-1", "from 0 to 19"),
        ("MAX_RETRIES", "٣", "from 0 to 19"),
        ("MAX_RETRIES", "9" * 5_000, "from 0 to 19"),
        ("RETRY_DELAY_MULTIPLIER", "nan", "from 1 to 100"),
        ("RETRY_DELAY_MULTIPLIER", "1e9999", "from 1 to 100"),
        ("LEASE_SECONDS", "inf", "from 3 to 3,600"),
        ("SHUTDOWN_GRACE_SECONDS", "1_0", "from 0 to 86,400"),
        ("FAILED_MONITOR", "perhaps", "must be on or off"),
        ("QUEUES", "a,,b", "it is empty"),
        ("QUEUES", "a,#", "wildcard"),
        ("QUEUES", ",".join(f"q{n}" for n in range(300)), "more than 256"),
        ("QUEUE_TYPE", "stream", "one of quorum, classic"),
        ("LOG_LEVEL", "\udcff", "no UTF-8"),
        ("JOBS", "a\x1bb", "control character"),
    ],
)
def test_a_value_that_cannot_be_used_is_told_with_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, allowed: str
) -> None:
    monkeypatch.setenv(f"CRON_{name}", text)

    said = faults()

    assert said.startswith(f"CRON_{name} (it is ")
    assert allowed in said
    assert len(said) < 400


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRON_MAX_RETRIES", " ")

    assert Settings.read().max_retries == 3
