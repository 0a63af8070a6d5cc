"""The settings: environment variables with the prefix CRON_, secrets also from *_FILE."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Self

import attrs
from environs import EnvError, EnvValidationError, FileAwareEnv, ValidationError, validate

from cronhare.adapters.rabbitmq.address import Address
from cronhare.domain.addresses import LedgerFile, LedgerServer, parse_ledger
from cronhare.domain.backoff import Backoff
from cronhare.domain.retry import RetryPolicy
from cronhare.domain.topology import MAIN_QUEUE

PREFIX = "CRON_"
MEMORY = "memory://"


class SettingsInvalid(ValueError):
    """Settings that cannot be used; *faults* names everything that is wrong."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        """Keep the faults, and say them."""
        self.faults = faults
        super().__init__("; ".join(faults))


@attrs.frozen(kw_only=True)
class Settings:
    """What the environment says; the defaults are the embedded system.

    URLs may hold passwords: they are kept out of the repr; `ledger` can be printed.
    """

    database_url: str = attrs.field(repr=False)
    broker_url: str = attrs.field(repr=False)
    jobs: Path | None
    max_retries: int
    retry_delay_ms: int
    retry_delay_multiplier: float
    refresh: timedelta
    lease: timedelta
    shutdown_grace: timedelta
    concurrency: int | None
    queues: tuple[str, ...]
    queue_type: str
    message_deduplication: bool
    failed_monitor: bool
    log_format: str
    log_level: str

    @property
    def ledger(self) -> LedgerFile | LedgerServer:
        """Where the ledger is; its text shows no user, password or option."""
        return parse_ledger(self.database_url)

    @property
    def broker_kind(self) -> str:
        """Which kind of broker the URL means: `memory` or `amqp`."""
        return "memory" if self.broker_url == MEMORY else "amqp"

    @property
    def retry_delay(self) -> timedelta:
        """How long `cron_scheduler_retry` holds back what is nacked."""
        return timedelta(milliseconds=self.retry_delay_ms)

    @property
    def policy(self) -> RetryPolicy:
        """The retry policy of schedules that have none."""
        backoff = Backoff(delay=self.retry_delay_ms, multiplier=self.retry_delay_multiplier)
        return RetryPolicy(attempts=self.max_retries + 1, backoff=backoff)

    @classmethod
    def from_environment(cls) -> Self:
        """Read the environment.

        Raises:
            SettingsInvalid: with every fault at once.
        """
        env = FileAwareEnv(eager=False, prefix=PREFIX, strip_whitespace=True)
        try:
            settings = cls._read(env)
            env.seal()
        except EnvValidationError as error:
            raise SettingsInvalid(_faults(error)) from error
        except (EnvError, ValueError) as error:  # a *_FILE that cannot be read, told at once
            raise SettingsInvalid((f"{error} ({error.__cause__})",)) from error
        return settings

    @classmethod
    def _read(cls, env: FileAwareEnv) -> Self:
        return cls(
            database_url=env.str("DATABASE_URL", "sqlite:///cronhare.sqlite3", validate=_database),
            broker_url=env.str("BROKER_URL", "memory://", validate=_broker),
            jobs=env.path("JOBS", None),
            max_retries=env.int("MAX_RETRIES", 3, validate=validate.Range(0, 19)),
            retry_delay_ms=env.int("RETRY_DELAY_MS", 30_000, validate=validate.Range(1, 3_600_000)),
            retry_delay_multiplier=env.float(
                "RETRY_DELAY_MULTIPLIER", 2.0, validate=validate.Range(1, 100)
            ),
            refresh=_seconds(env, "REFRESH_SECONDS", 5, at_least=1, at_most=3_600),
            lease=_seconds(env, "LEASE_SECONDS", 30, at_least=3, at_most=3_600),
            shutdown_grace=_seconds(env, "SHUTDOWN_GRACE_SECONDS", 30, at_least=0, at_most=86_400),
            concurrency=env.int("CONCURRENCY", None, validate=validate.Range(1, 1_000)),
            queues=tuple(env.list("QUEUES", [MAIN_QUEUE], subcast=str)),
            queue_type=env.str(
                "QUEUE_TYPE", "quorum", validate=validate.OneOf(["quorum", "classic"])
            ),
            message_deduplication=env.bool("MESSAGE_DEDUPLICATION", default=False),
            failed_monitor=env.bool("FAILED_MONITOR", default=True),
            log_format=env.str("LOG_FORMAT", "text", validate=validate.OneOf(["text", "json"])),
            log_level=env.str(
                "LOG_LEVEL", "INFO", validate=validate.OneOf(["DEBUG", "INFO", "WARN", "ERROR"])
            ),
        )


def _seconds(
    env: FileAwareEnv, name: str, default: float, *, at_least: float, at_most: float
) -> timedelta:
    allowed = validate.Range(at_least, at_most)
    # A faulty variable reads as None until all of them are told by `seal`.
    return timedelta(seconds=env.float(name, default, validate=allowed) or 0)


def _database(url: str) -> None:
    try:
        parse_ledger(url)
    except ValueError as error:
        raise ValidationError(str(error)) from error


def _broker(url: str) -> None:
    if url == MEMORY:
        return
    try:
        Address.parse(url)
    except ValueError as error:
        raise ValidationError(f'must be "{MEMORY}" or a usable URL: {error}') from None


def _faults(error: EnvValidationError) -> tuple[str, ...]:
    said = error.error_messages
    if not isinstance(said, Mapping):
        return tuple(map(str, said))
    return tuple(f"{name}{_shown(name)}: {' '.join(texts)}" for name, texts in said.items())


def _shown(name: str) -> str:
    """Show what a variable is, unless it may hold a password."""
    return "" if name.endswith("_URL") else f" (it is {os.environ.get(name)!r})"
