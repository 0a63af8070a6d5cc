import os
from datetime import timedelta
from pathlib import Path

import pytest

from cronhare.domain.events.rules import AlertPolicy
from cronhare.domain.retries.limits import BreakerPolicy, BudgetPolicy, OnExhausted, RetryLimits
from cronhare.domain.retries.outcome import CrashPolicy
from cronhare.domain.retries.policy import Backoff, RetryPolicy
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
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CRON_")]:
        monkeypatch.delenv(name)


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
            "CIRCUIT_BREAKER=on",
            "limits",
            RetryLimits(budget=BUDGET, breaker=None),
            RetryLimits(
                budget=BUDGET,
                breaker=BreakerPolicy(
                    error_rate=0.5, least=10, window=300 * SECOND, pause=60 * SECOND
                ),
            ),
        ),
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
    monkeypatch: pytest.MonkeyPatch,
    variables: str,
    what: str,
    by_default: object,
    once_set: object,
) -> None:
    assert getattr(Settings.read(), what) == by_default

    set_all(monkeypatch, variables)

    assert getattr(Settings.read(), what) == once_set


def test_all_faults_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, "MAX_RETRIES=many LEASE_SECONDS=1 DATABASE_URL=oracle://secret@host/x")

    with pytest.raises(SettingsInvalid) as caught:
        Settings.read()

    names = {fault.partition(":")[0].partition(" ")[0] for fault in caught.value.faults}
    assert names == {"CRON_MAX_RETRIES", "CRON_LEASE_SECONDS", "CRON_DATABASE_URL"}
    assert "secret" not in str(caught.value)


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


@pytest.mark.parametrize("weight", ["0", "101", "", "+1", "1.5", "٣", "1e1", "99999999999", "b"])
def test_a_weight_is_a_whole_number_from_1_to_100(weight: str) -> None:
    with pytest.raises(ValueError, match="a whole number from 1 to 100"):
        served_queues(f"a:{weight}")


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


def test_the_defaults_are_the_embedded_system_with_the_original_retries() -> None:
    settings = Settings.read()

    assert settings.database_url == "sqlite:///cronhare.sqlite3"
    assert settings.broker_url == "memory://"
    assert settings.policy.attempts == 4
    waits = [settings.policy.backoff.wait(retry) for retry in (1, 2, 3)]
    assert waits == [30 * SECOND, 60 * SECOND, 120 * SECOND]
