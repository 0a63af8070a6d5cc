# ruff: noqa: RUF009 - a setting is declared by a call, as attrs.field is
"""The settings: variables with the prefix CRON_, or a settings file; see `sources`."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import attrs

from cronhare.domain.access import Login
from cronhare.domain.addresses.servers import (
    BrokerServer,
    LedgerFile,
    LedgerServer,
    MailServer,
    checked_address,
    parse_ledger,
)
from cronhare.domain.addresses.web import AllowedHosts, ListenAddress
from cronhare.domain.events.rules import (
    DEFAULT_CRITICAL,
    DEFAULT_FAILED,
    DEFAULT_RETRIES,
    DEFAULT_RETRY_RATE,
    DEFAULT_WARNING,
    LONGEST_RUNBOOK,
    RUNBOOK,
    AlertPolicy,
)
from cronhare.domain.events.rules import LARGEST as LARGEST_ALERT
from cronhare.domain.retries.limits import (
    DEFAULT_BREAKER_WINDOW,
    DEFAULT_BUDGET,
    DEFAULT_BUDGET_WINDOW,
    DEFAULT_ERROR_RATE,
    DEFAULT_LEAST,
    DEFAULT_PAUSE,
    ERROR_RATES,
    LARGEST_BUDGET,
    LEASTS,
    LONGEST_BREAKER_WINDOW,
    LONGEST_BUDGET_WINDOW,
    BreakerPolicy,
    BudgetPolicy,
    OnExhausted,
    RetryLimits,
)
from cronhare.domain.retries.outcome import CRASH_LIMIT, CRASH_LIMITS, CRASH_WINDOW, CrashPolicy
from cronhare.domain.retries.policy import (
    ATTEMPTS,
    DEFAULT_ATTEMPTS,
    DEFAULT_DELAY_MS,
    DEFAULT_MULTIPLIER,
    DELAY_MS,
    MILLISECONDS,
    MULTIPLIERS,
    Backoff,
    RetryPolicy,
)
from cronhare.domain.texts.printable import echo
from cronhare.domain.topology import MAIN_QUEUE, ServedQueues

from .bounds import MOST_AT_A_TIME
from .forms import (
    Form,
    checked,
    decimal,
    host_names,
    hosts,
    keys,
    one_of,
    or_off,
    seconds,
    served_queues,
    some_queues,
    switch,
    text,
    whole,
)
from .sources import PREFIX, SettingText, Sources, read_sources

MEMORY: Final = "memory://"

#: Schedules with series of their own in the metrics, by default and at most: each is kept for
#: months by whoever scrapes.
DEFAULT_METRICS: Final = 200
LARGEST_METRICS: Final = 10_000

_DECLARED: Final = "cronhare_setting"


class SettingsInvalid(ValueError):
    """Settings that cannot be used; *faults* names everything that is wrong."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        """Keep the faults, and say them."""
        self.faults = faults
        super().__init__("; ".join(faults))


@attrs.frozen(kw_only=True)
class Declared:
    """How a field is read: its name outside, its form, and its default as text."""

    name: str | None
    form: Form[Any]
    default: str | None
    secret: bool


def setting(
    form: Form[Any], default: str | None = None, *, name: str | None = None, secret: bool = False
) -> Any:  # noqa: ANN401 - as attrs.field
    """Declare a setting. *name* is its name outside, in lower case; else that of the field."""
    declared = Declared(name=name, form=form, default=default, secret=secret)
    return attrs.field(repr=not secret, metadata={_DECLARED: declared})


def _broker(url: str) -> None:
    if url == MEMORY:
        return
    try:
        BrokerServer.parse(url)
    except ValueError as error:
        raise ValueError(f'must be "{MEMORY}" or a usable URL; the broker URL {error}') from None


def _file_or_server(url: str) -> None:
    parse_ledger(url)


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of a process; the defaults are the embedded system.

    URLs may hold passwords and are not in the repr; `ledger` can be printed. *sources* has where
    each came from.
    """

    database_url: str = setting(checked(_file_or_server), "sqlite:///cronhare.sqlite3", secret=True)
    broker_url: str = setting(checked(_broker), MEMORY, secret=True)
    jobs: Path | None = setting(Path)
    max_retries: int = setting(whole(0, ATTEMPTS[-1] - 1), str(DEFAULT_ATTEMPTS - 1))
    # Shorter than a schedule's own: it is the TTL of the queue of what is nacked, too.
    retry_delay_ms: int = setting(whole(1, DELAY_MS[-1], of=MILLISECONDS), str(DEFAULT_DELAY_MS))
    retry_delay_multiplier: float = setting(decimal(*MULTIPLIERS), str(DEFAULT_MULTIPLIER))
    retry_budget: int = setting(or_off(whole(0, LARGEST_BUDGET)), str(DEFAULT_BUDGET))
    retry_budget_window: timedelta = setting(
        seconds(1, LONGEST_BUDGET_WINDOW.total_seconds()),
        f"{DEFAULT_BUDGET_WINDOW.total_seconds():g}",
        name="retry_budget_window_seconds",
    )
    retry_budget_on_exhausted: str = setting(one_of(*OnExhausted), OnExhausted.DEFER.value)
    crash_limit: int = setting(whole(CRASH_LIMITS[0], CRASH_LIMITS[-1]), str(CRASH_LIMIT))
    crash_window: timedelta = setting(
        seconds(1, 86_400), f"{CRASH_WINDOW.total_seconds():.0f}", name="crash_window_seconds"
    )
    timeout_is_crash: bool = setting(switch, "on")
    circuit_breaker: bool = setting(switch, "off")
    circuit_breaker_error_rate: float = setting(decimal(*ERROR_RATES), str(DEFAULT_ERROR_RATE))
    circuit_breaker_min_attempts: int = setting(whole(LEASTS[0], LEASTS[-1]), str(DEFAULT_LEAST))
    circuit_breaker_window: timedelta = setting(
        seconds(1, LONGEST_BREAKER_WINDOW.total_seconds()),
        f"{DEFAULT_BREAKER_WINDOW.total_seconds():g}",
        name="circuit_breaker_window_seconds",
    )
    circuit_breaker_pause: timedelta = setting(
        seconds(1, LONGEST_BREAKER_WINDOW.total_seconds()),
        f"{DEFAULT_PAUSE.total_seconds():g}",
        name="circuit_breaker_pause_seconds",
    )
    alert_failed: int = setting(or_off(whole(0, LARGEST_ALERT)), str(DEFAULT_FAILED))
    alert_warning: int = setting(or_off(whole(0, LARGEST_ALERT)), str(DEFAULT_WARNING))
    alert_critical: int = setting(or_off(whole(0, LARGEST_ALERT)), str(DEFAULT_CRITICAL))
    alert_retries: int = setting(or_off(whole(0, ATTEMPTS[-1])), str(DEFAULT_RETRIES))
    alert_retry_rate: float = setting(or_off(decimal(0, 1)), str(DEFAULT_RETRY_RATE))
    alert_runbook: str = setting(text(LONGEST_RUNBOOK), RUNBOOK)
    refresh: timedelta = setting(seconds(1, 3_600), "5", name="refresh_seconds")
    lease: timedelta = setting(seconds(3, 3_600), "30", name="lease_seconds")
    shutdown_grace: timedelta = setting(seconds(0, 86_400), "30", name="shutdown_grace_seconds")
    concurrency: int | None = setting(whole(1, MOST_AT_A_TIME))
    served: ServedQueues = setting(served_queues, MAIN_QUEUE, name="queues")
    queue_type: str = setting(one_of("quorum", "classic"), "quorum")
    message_deduplication: bool = setting(switch, "off")
    failed_monitor: bool = setting(switch, "on")
    foreign_queues: tuple[str, ...] = setting(some_queues, "")
    foreign_messages: str = setting(one_of("accept", "refuse"), "accept")
    message_keys: tuple[str, ...] = setting(keys, "", name="message_key", secret=True)
    http_allowed_hosts: tuple[str, ...] = setting(hosts, "")
    smtp_url: str | None = setting(checked(MailServer.parse), secret=True)
    smtp_from: str = setting(checked(checked_address), "cronhare@localhost")
    web_address: str = setting(checked(ListenAddress.parse), "127.0.0.1:8520")
    probe_address: str | None = setting(checked(ListenAddress.parse))
    metrics_schedules: int = setting(whole(0, LARGEST_METRICS), str(DEFAULT_METRICS))
    web_login: str = setting(one_of(*Login), Login.AUTO.value)
    web_hosts: tuple[str, ...] = setting(host_names, "")
    tracing: bool = setting(switch, "off")
    log_format: str = setting(one_of("text", "json"), "text")
    log_level: str = setting(one_of("DEBUG", "INFO", "WARN", "ERROR"), "INFO")
    sources: Sources = attrs.field(factory=lambda: Sources({}), repr=False, eq=False)

    @property
    def queues(self) -> tuple[str, ...]:
        """The task queues of this process, where it has no jobs file that names others."""
        return self.served.names

    @property
    def ledger(self) -> LedgerFile | LedgerServer:
        """Where the ledger is; its text shows no user, password or option."""
        return parse_ledger(self.database_url)

    @property
    def broker_kind(self) -> str:
        """Which kind of broker the URL means: `memory` or `amqp`."""
        return "memory" if self.broker_url == MEMORY else "amqp"

    @property
    def in_memory(self) -> bool:
        """Whether the broker is inside of the process, `cronhare up`."""
        return self.broker_kind == "memory"

    @property
    def bell_kind(self) -> str:
        """How what a person asks for is told at once: by the `broker`, by a `fifo`, or `none`."""
        if self.broker_kind == "amqp":
            return "broker"
        return "fifo" if self.ledger_kind == "file" else "none"

    @property
    def accepts_foreign(self) -> bool:
        """Whether messages that other programs have published are run."""
        return self.foreign_messages == "accept"

    @property
    def allowed_hosts(self) -> AllowedHosts:
        """Whom we may ask over HTTP."""
        return AllowedHosts.parse(self.http_allowed_hosts)

    @property
    def mail_server(self) -> MailServer | None:
        """Where mail is handed in, if it is."""
        return None if self.smtp_url is None else MailServer.parse(self.smtp_url)

    @property
    def listen_address(self) -> ListenAddress:
        """Where `cronhare web` listens."""
        return ListenAddress.parse(self.web_address)

    @property
    def probes(self) -> ListenAddress | None:
        """Where this process answers probes, if it does."""
        return None if self.probe_address is None else ListenAddress.parse(self.probe_address)

    @property
    def counting_kind(self) -> str:
        """What counts the events of this process: `prometheus`, or `silent` if nobody asks."""
        return "silent" if self.probe_address is None else "prometheus"

    @property
    def tracing_kind(self) -> str:
        """Whether there are traces: `opentelemetry`, or `off`."""
        return "opentelemetry" if self.tracing else "off"

    @property
    def ledger_kind(self) -> str:
        """Where the ledger is: in a `file` of this host, or on a `server`."""
        return "file" if isinstance(self.ledger, LedgerFile) else "server"

    @property
    def retry_delay(self) -> timedelta:
        """How long `cron_scheduler_retry` holds back what is nacked."""
        return timedelta(milliseconds=self.retry_delay_ms)

    @property
    def policy(self) -> RetryPolicy:
        """The retry policy of schedules that have none."""
        backoff = Backoff(delay=self.retry_delay_ms, multiplier=self.retry_delay_multiplier)
        return RetryPolicy(attempts=self.max_retries + 1, backoff=backoff)

    @property
    def limits(self) -> RetryLimits:
        """The limits of all retries."""
        return RetryLimits(
            budget=self._budget if self.retry_budget else None,
            breaker=self._breaker if self.circuit_breaker else None,
        )

    @property
    def _budget(self) -> BudgetPolicy:
        return BudgetPolicy(
            most=self.retry_budget,
            window=self.retry_budget_window,
            on_exhausted=OnExhausted(self.retry_budget_on_exhausted),
        )

    @property
    def _breaker(self) -> BreakerPolicy:
        return BreakerPolicy(
            error_rate=self.circuit_breaker_error_rate,
            least=self.circuit_breaker_min_attempts,
            window=self.circuit_breaker_window,
            pause=self.circuit_breaker_pause,
        )

    @property
    def crash_policy(self) -> CrashPolicy:
        """What makes a poison pill of the runs of schedules that do not say."""
        return CrashPolicy(
            limit=self.crash_limit, window=self.crash_window, timeouts=self.timeout_is_crash
        )

    @property
    def alert_policy(self) -> AlertPolicy:
        """Above which numbers there is an alert."""
        return AlertPolicy(
            failed=self.alert_failed,
            warning=self.alert_warning,
            critical=self.alert_critical,
            retries=self.alert_retries,
            retry_rate=self.alert_retry_rate,
            runbook=self.alert_runbook,
        )

    def called(self, setting: str) -> str:
        """Give the name of a setting in the place where it was found, or its variable."""
        found = self.sources.found.get(setting)
        return found.name if found else f"{PREFIX}{setting.upper()}"

    @classmethod
    def declared(cls) -> dict[str, tuple[str, Declared]]:
        """Give each setting by its name outside, in lower case, with its field."""
        found = {}
        for field in attrs.fields(cls):
            if (one := field.metadata.get(_DECLARED)) is not None:
                found[one.name or field.name] = (field.name, one)
        return found

    @classmethod
    def read(cls) -> Self:
        """Read the environment, and the settings file.

        Raises:
            SettingsInvalid: with every fault at once.
        """
        declared = cls.declared()
        secrets = {name for name, (_, one) in declared.items() if one.secret}
        sources = read_sources(declared.keys(), secrets)
        values, faults = dict[str, Any](), [*sources.faults]
        for name, (field, one) in declared.items():
            found = sources.found.get(name)
            try:
                values[field] = _value(one, found)
            except ValueError as error:
                assert found is not None, "a default can be read"
                faults.append(f"{found.name}{_shown(one, found)}: {error}")
        if faults:
            raise SettingsInvalid(tuple(faults))
        return cls(**values, sources=sources)


def _value(declared: Declared, found: SettingText | None) -> Any:  # noqa: ANN401 - what the form gives
    text = declared.default if found is None else found.text
    if text is None:
        return None
    if any(sign < " " or "\ud800" <= sign <= "\udfff" for sign in text):
        raise ValueError("has a control character, or is no UTF-8")
    return declared.form(text)


def _shown(declared: Declared, found: SettingText) -> str:
    """Quote a variable that cannot hold a password."""
    if declared.secret or found.source != "environment":
        return ""
    return f" (it is {echo(found.text)})"
