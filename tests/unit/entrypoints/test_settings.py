"""Settings: their defaults, their sources, and what is told of those that cannot be used."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from cronhare.domain.events.rules import AlertPolicy
from cronhare.domain.retries.limits import BreakerPolicy, BudgetPolicy, OnExhausted, RetryLimits
from cronhare.domain.retries.outcome import CrashPolicy
from cronhare.domain.retries.policy import Backoff, RetryPolicy
from cronhare.domain.schedules.work import ATTEMPT_VARIABLES
from cronhare.entrypoints.given import Named
from cronhare.entrypoints.settings.forms import queue_texts, served_queues
from cronhare.entrypoints.settings.settings import Settings, SettingsInvalid

SECOND = timedelta(seconds=1)
BUDGET = BudgetPolicy(most=100, window=60 * SECOND, on_exhausted=OnExhausted.DEFER)
RUNBOOK = "https://runbooks.example.com/dlq"

BREAKER_SET = """
    RETRY_BUDGET=off CIRCUIT_BREAKER=on CIRCUIT_BREAKER_ERROR_RATE=0.8
    CIRCUIT_BREAKER_MIN_ATTEMPTS=20 CIRCUIT_BREAKER_WINDOW_SECONDS=60
    CIRCUIT_BREAKER_PAUSE_SECONDS=5
"""
ALERTS_SET = f"""
    ALERT_FAILED=off ALERT_WARNING=20 ALERT_CRITICAL=200 ALERT_RETRIES=0 ALERT_RETRY_RATE=0.5
    ALERT_RUNBOOK={RUNBOOK}
"""


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


def set_all(monkeypatch: pytest.MonkeyPatch, variables: str) -> None:
    for each in variables.split():
        name, _, value = each.partition("=")
        monkeypatch.setenv(f"CRON_{name}", value)


@pytest.mark.parametrize(
    ("variables", "what", "by_default", "once_set"),
    [
        (
            "MAX_RETRIES=2 RETRY_DELAY_MS=4000 RETRY_DELAY_MULTIPLIER=3",
            "policy",
            RetryPolicy(attempts=4, backoff=Backoff(delay=30_000, multiplier=2)),
            RetryPolicy(attempts=3, backoff=Backoff(delay=4_000, multiplier=3)),
        ),
        ("RETRY_DELAY_MS=5000", "retry_delay", 30 * SECOND, 5 * SECOND),
        (
            "RETRY_BUDGET=7 RETRY_BUDGET_WINDOW_SECONDS=30 RETRY_BUDGET_ON_EXHAUSTED=fail",
            "limits",
            RetryLimits(budget=BUDGET, breaker=None),
            RetryLimits(
                budget=BudgetPolicy(most=7, window=30 * SECOND, on_exhausted=OnExhausted.FAIL),
                breaker=None,
            ),
        ),
        ("CATCH_UP_BUDGET=20", "catch_up", None, BudgetPolicy(most=20, window=60 * SECOND)),
        (
            BREAKER_SET,
            "limits",
            RetryLimits(budget=BUDGET, breaker=None),
            RetryLimits(
                budget=None,
                breaker=BreakerPolicy(
                    error_rate=0.8, least=20, window=60 * SECOND, pause=5 * SECOND
                ),
            ),
        ),
        (
            "CRASH_LIMIT=5 CRASH_WINDOW_SECONDS=60 TIMEOUT_IS_CRASH=off",
            "crash_policy",
            CrashPolicy(limit=3, window=300 * SECOND, timeouts=True),
            CrashPolicy(limit=5, window=60 * SECOND, timeouts=False),
        ),
        (
            ALERTS_SET,
            "alert_policy",
            AlertPolicy(failed=5, warning=10, critical=100, retries=2, retry_rate=0.2),
            AlertPolicy(
                failed=0, warning=20, critical=200, retries=0, retry_rate=0.5, runbook=RUNBOOK
            ),
        ),
        ("QUEUE_TYPE=classic", "queue_type", "quorum", "classic"),
        ("FAILED_MONITOR=off", "failed_monitor", True, False),
        ("MESSAGE_DEDUPLICATION=on", "message_deduplication", False, True),
        ("FOREIGN_MESSAGES=refuse", "accepts_foreign", True, False),
    ],
)
def test_what_is_set_holds_in_place_of_the_default(
    monkeypatch: pytest.MonkeyPatch, variables: str, what: str, by_default: object, once_set: object
) -> None:
    assert getattr(Settings.read(), what) == by_default

    set_all(monkeypatch, variables)

    assert getattr(Settings.read(), what) == once_set


@pytest.mark.parametrize("between", [",", " ", " , "])
def test_several_message_keys_come_from_a_file_in_their_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, between: str
) -> None:
    file = tmp_path / "message-key"
    file.write_text("a" * 32 + between + "b" * 32 + "\n")
    monkeypatch.setenv("CRON_MESSAGE_KEY_FILE", str(file))

    settings = Settings.read()

    assert settings.message_keys == ("a" * 32, "b" * 32)
    assert "aaa" not in repr(settings)


def test_a_message_key_that_could_be_guessed_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CRON_MESSAGE_KEY", "a" * 32 + ",hunter2")

    with pytest.raises(SettingsInvalid, match="16 characters or more") as caught:
        Settings.read()

    assert "hunter2" not in str(caught.value)


def test_a_queue_has_the_weight_behind_its_last_colon_and_else_one() -> None:
    served = served_queues("reports:3, mail, at:night:100, mail, mail:1")

    assert served == {"reports": 3, "mail": 1, "at:night": 100}
    assert served_queues(",".join(queue_texts(served))) == served


def test_all_faults_of_queues_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="weight") as caught:
        served_queues("a:101,reports:3,b*,reports:4,cron_scheduler_failed:2")

    assert str(caught.value).split("; ") == [
        "'a:101': behind its last colon a queue has its weight, a whole number from 1 to 100",
        "'b*' cannot name a queue: it is empty or has a wildcard (* or #)",
        "reports has two weights, 3 and 4",
        "cron_scheduler_failed is one of the system's own queues",
        "name a task queue otherwise",
    ]


SECRET = "c4nary"
URL = f"mysql://u:{SECRET}@127.0.0.1/cron"


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


def test_the_environment_goes_before_a_named_file_and_that_before_the_nearest(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> tuple[int, int | None]:
        settings = Settings.read()
        return settings.max_retries, settings.concurrency

    settings_file(tmp_path / "etc.toml", "max_retries = 1\nconcurrency = 1\n")
    seen = [found()]
    settings_file(tmp_path / "config/cronhare/cronhare.toml", "max_retries = 2\n")
    seen.append(found())
    settings_file(here / "cronhare.toml", "max_retries = 3\nconcurrency = 5\n")
    seen.append(found())
    named = settings_file(tmp_path / "other.toml", "max_retries = 7\n")
    monkeypatch.setenv("CRON_CONFIG", str(named))
    seen.append(found())
    monkeypatch.setenv("CRON_MAX_RETRIES", "9")
    seen.append(found())

    assert seen == [(1, 1), (2, None), (3, 5), (7, None), (9, None)]
    assert Settings.read().sources.found["max_retries"].source == "environment"
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
        ("concurrency = 0", "concurrency in cronhare.toml: must be a whole number from 1 to 1,000"),
        (f"database_url = {SECRET}", "is not TOML (at line 1, column 16)"),
        (f'broker_url = "amqp://u:{SECRET}@h:x/"', "broker_url in cronhare.toml: "),
        ('broker_url_file = "nowhere"', "broker_url_file in cronhare.toml: nowhere cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(here: Path, text: str, why: str) -> None:
    settings_file(here / "cronhare.toml", text)

    assert why in faults()


def test_a_file_with_a_password_is_closed_to_others(here: Path) -> None:
    path = settings_file(here / "cronhare.toml", f'database_url = "{URL}"\n', 0o644)
    assert "can be read by every user of this machine, and has database_url" in faults()
    path.chmod(0o646)
    assert "can be written by every user" in faults()

    path.chmod(0o640)
    assert Settings.read().database_url == URL


@pytest.mark.parametrize("key", [URL, "A" * 8, SECRET * 9], ids=["URL", "capitals", "too long"])
def test_a_key_that_could_be_a_password_is_not_quoted(here: Path, key: str) -> None:
    settings_file(here / "cronhare.toml", f'"{key}" = 1')

    said = faults()

    assert "a key is no name of a setting" in said
    assert key not in said


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
        ("MAX_RETRIES", "٣", "from 0 to 19"),
        ("RETRY_DELAY_MULTIPLIER", "nan", "from 1 to 100"),
        ("SHUTDOWN_GRACE_SECONDS", "1_0", "from 0 to 86,400"),
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


BOTH = Settings(jobs=Path("a.toml"), app="shop:app")


@pytest.mark.parametrize(
    ("named", "places"),
    [
        (Named(), (Path("a.toml"), "shop:app")),
        (Named(Path("b.toml")), (Path("b.toml"),)),
        (Named(app="other:app"), ("other:app",)),
        (Named(Path("b.toml"), "other:app"), (Path("b.toml"), "other:app")),
    ],
)
def test_what_a_command_names_counts_instead_of_all_that_settings_name(
    named: Named, places: tuple[Path | str, ...]
) -> None:
    assert named.places(BOTH) == places
    assert Named().places(Settings()) == ()
