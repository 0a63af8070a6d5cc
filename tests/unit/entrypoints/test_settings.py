import os
from datetime import timedelta
from pathlib import Path

import pytest

from cronhare.domain.events.rules import AlertPolicy
from cronhare.domain.retries.limits import BreakerPolicy, BudgetPolicy, OnExhausted, RetryLimits
from cronhare.domain.retries.outcome import CrashPolicy
from cronhare.domain.topology import RETRY_QUEUE, topology
from cronhare.entrypoints.settings.settings import Settings, SettingsInvalid


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CRON_")]:
        monkeypatch.delenv(name)


def test_the_defaults_are_the_embedded_system_with_the_original_retries() -> None:
    settings = Settings.read()

    assert settings.database_url == "sqlite:///cronhare.sqlite3"
    assert settings.broker_url == "memory://"
    assert settings.policy.attempts == 4
    waits = [settings.policy.backoff.wait(retry) for retry in (1, 2, 3)]
    assert waits == [timedelta(seconds=30), timedelta(seconds=60), timedelta(seconds=120)]


def test_how_often_and_when_tasks_are_retried_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRON_MAX_RETRIES", "2")
    monkeypatch.setenv("CRON_RETRY_DELAY_MS", "4000")
    monkeypatch.setenv("CRON_RETRY_DELAY_MULTIPLIER", "3")

    policy = Settings.read().policy

    assert policy.attempts == 3
    assert [policy.backoff.wait(retry) for retry in (1, 2)] == [
        timedelta(seconds=4),
        timedelta(seconds=12),
    ]


def test_by_default_a_hundred_retries_a_minute_are_granted_and_no_breaker_stops_them() -> None:
    settings = Settings.read()

    assert settings.limits == RetryLimits(
        budget=BudgetPolicy(most=100, window=timedelta(seconds=60), on_exhausted=OnExhausted.DEFER),
        breaker=None,
    )


def test_a_budget_of_retries_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRON_RETRY_BUDGET", "7")
    monkeypatch.setenv("CRON_RETRY_BUDGET_WINDOW_SECONDS", "30")
    monkeypatch.setenv("CRON_RETRY_BUDGET_ON_EXHAUSTED", "fail")

    assert Settings.read().limits.budget == BudgetPolicy(
        most=7, window=timedelta(seconds=30), on_exhausted=OnExhausted.FAIL
    )


def test_a_breaker_that_is_asked_for_opens_above_a_half_unless_more_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CRON_CIRCUIT_BREAKER", "on")
    by_default = Settings.read().limits.breaker
    monkeypatch.setenv("CRON_CIRCUIT_BREAKER_ERROR_RATE", "0.8")
    monkeypatch.setenv("CRON_CIRCUIT_BREAKER_MIN_ATTEMPTS", "20")
    monkeypatch.setenv("CRON_CIRCUIT_BREAKER_WINDOW_SECONDS", "60")
    monkeypatch.setenv("CRON_CIRCUIT_BREAKER_PAUSE_SECONDS", "5")

    assert by_default == BreakerPolicy(
        error_rate=0.5, least=10, window=timedelta(seconds=300), pause=timedelta(seconds=60)
    )
    assert Settings.read().limits.breaker == BreakerPolicy(
        error_rate=0.8, least=20, window=timedelta(seconds=60), pause=timedelta(seconds=5)
    )


def test_queues_are_quorum_and_what_failed_is_watched_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = Settings.read()
    monkeypatch.setenv("CRON_QUEUE_TYPE", "classic")
    monkeypatch.setenv("CRON_FAILED_MONITOR", "off")
    after = Settings.read()

    assert (before.queue_type, after.queue_type) == ("quorum", "classic")
    assert (before.failed_monitor, after.failed_monitor) == (True, False)


def test_how_long_a_nacked_message_rests_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def rest() -> timedelta | None:
        queues = topology(retry_delay=Settings.read().retry_delay).queues
        return next(queue.ttl for queue in queues if queue.name == RETRY_QUEUE)

    by_default = rest()
    monkeypatch.setenv("CRON_RETRY_DELAY_MS", "5000")

    assert (by_default, rest()) == (timedelta(seconds=30), timedelta(seconds=5))


def test_what_a_poison_pill_is_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    by_default = Settings.read().crash_policy
    monkeypatch.setenv("CRON_CRASH_LIMIT", "5")
    monkeypatch.setenv("CRON_CRASH_WINDOW_SECONDS", "60")
    monkeypatch.setenv("CRON_TIMEOUT_IS_CRASH", "off")

    assert by_default == CrashPolicy(limit=3, window=timedelta(seconds=300), timeouts=True)
    assert Settings.read().crash_policy == CrashPolicy(
        limit=5, window=timedelta(seconds=60), timeouts=False
    )


def test_above_which_numbers_there_is_an_alert_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    by_default = Settings.read().alert_policy
    monkeypatch.setenv("CRON_ALERT_FAILED", "off")
    monkeypatch.setenv("CRON_ALERT_WARNING", "20")
    monkeypatch.setenv("CRON_ALERT_CRITICAL", "200")
    monkeypatch.setenv("CRON_ALERT_RETRIES", "0")
    monkeypatch.setenv("CRON_ALERT_RETRY_RATE", "0.5")
    monkeypatch.setenv("CRON_ALERT_RUNBOOK", "https://runbooks.example.com/dlq")

    assert by_default == AlertPolicy(failed=5, warning=10, critical=100, retries=2, retry_rate=0.2)
    assert Settings.read().alert_policy == AlertPolicy(
        failed=0,
        warning=20,
        critical=200,
        retries=0,
        retry_rate=0.5,
        runbook="https://runbooks.example.com/dlq",
    )


def test_deduplication_by_the_broker_is_off_until_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = Settings.read()
    monkeypatch.setenv("CRON_MESSAGE_DEDUPLICATION", "on")
    after = Settings.read()

    assert (before.message_deduplication, after.message_deduplication) == (False, True)


def test_all_faults_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRON_MAX_RETRIES", "many")
    monkeypatch.setenv("CRON_LEASE_SECONDS", "1")
    monkeypatch.setenv("CRON_DATABASE_URL", "oracle://secret@host/x")

    with pytest.raises(SettingsInvalid) as caught:
        Settings.read()

    names = {fault.partition(":")[0].partition(" ")[0] for fault in caught.value.faults}
    assert names == {"CRON_MAX_RETRIES", "CRON_LEASE_SECONDS", "CRON_DATABASE_URL"}
    assert "secret" not in str(caught.value)


def test_urls_stay_out_of_the_repr() -> None:
    assert "sqlite" not in repr(Settings.read())


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


def test_messages_of_others_are_accepted_unless_they_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = Settings.read()
    monkeypatch.setenv("CRON_FOREIGN_MESSAGES", "refuse")
    after = Settings.read()

    assert (before.accepts_foreign, after.accepts_foreign) == (True, False)
    assert (before.message_keys, after.message_keys) == ((), ())
