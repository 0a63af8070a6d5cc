# ruff: noqa: RUF009 - a setting is declared by a call, as attrs.field is
"""The settings: variables with the prefix CRON_, or a settings file; see `sources`."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import attrs

from cronhare.adapters.addresses import (
    BrokerServer,
    LedgerFile,
    LedgerServer,
    ListenAddress,
    MailServer,
    checked_address,
    parse_ledger,
)
from cronhare.adapters.http.allowed_hosts import AllowedHosts
from cronhare.domain.cron import find_zone
from cronhare.domain.events import rules
from cronhare.domain.reading import MILLISECONDS
from cronhare.domain.retries import limits as retry_limits
from cronhare.domain.retries import outcome
from cronhare.domain.retries import policy as retries
from cronhare.domain.texts.printable import echo
from cronhare.domain.topology import MAIN_QUEUE

from . import MOST_AT_A_TIME
from .forms import (
    Form,
    checked,
    decimal,
    host_names,
    hosts,
    keys,
    one_of,
    queue_texts,
    seconds,
    served_queues,
    some_queues,
    switch,
    text,
    whole,
)
from .sources import PREFIX, SettingText, Sources, read_sources

MEMORY: Final = "memory://"

#: Schedules with series of their own in the metrics, at most: each is kept for months by whoever
#: scrapes.
LARGEST_METRICS: Final = 10_000

#: Characters of `MODULE:APP`.
LONGEST_PLACE: Final = 1_024

_DECLARED: Final = "cronhare_setting"


class Login(StrEnum):
    """When a request that comes straight from this machine needs a token; all others always do.

    `AUTO`: once the first was made. `ALWAYS`: from the start. `NEVER`: it may do everything.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class SettingsInvalid(ValueError):
    """Settings that cannot be used; *faults* names everything that is wrong."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


#: What holds by default.
_BUDGET, _BREAKER, _ALERTS = (
    retry_limits.BudgetPolicy(),
    retry_limits.BreakerPolicy(),
    rules.AlertPolicy(),
)


@attrs.frozen(kw_only=True)
class Declared:
    """How a field is read: by which name outside, if that is another, and its form.

    Without a name of its own it has that of the field, with its *unit*.
    """

    form: Form[Any]
    name: str | None = None
    unit: str = ""
    secret: bool = False


def setting(form: Form[Any], default: Any = None, **how: Any) -> Any:  # noqa: ANN401 - as attrs.field
    declared = Declared(form=form, **how)
    return attrs.field(default=default, repr=not declared.secret, metadata={_DECLARED: declared})


def lasting(least: float, most: float | timedelta, default: timedelta) -> Any:  # noqa: ANN401 - likewise
    return setting(seconds(least, most), default, unit="_seconds")


def _broker(url: str) -> None:
    try:
        if url != MEMORY:
            BrokerServer.parse(url)
    except ValueError as error:
        text = f'must be "{MEMORY}" or a usable URL; the broker URL {error}'
        raise ValueError(text) from error


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of a process; the defaults are the embedded system.

    URLs may hold passwords and are not in the repr; `ledger` can be printed. *sources* has where
    each came from.
    """

    database_url: str = setting(checked(parse_ledger), "sqlite:///cronhare.sqlite3", secret=True)
    broker_url: str = setting(checked(_broker), MEMORY, secret=True)
    jobs: Path | None = setting(Path)
    app: str | None = setting(text(LONGEST_PLACE))
    max_retries: int = setting(whole(0, retries.ATTEMPTS[-1] - 1), retries.DEFAULT_ATTEMPTS - 1)
    # Shorter than a schedule's own: it is the TTL of the queue of what is nacked, too.
    retry_delay_ms: int = setting(
        whole(1, retries.DELAY_MS[-1], of=MILLISECONDS), retries.DEFAULT_DELAY_MS
    )
    retry_delay_multiplier: float = setting(
        decimal(*retries.MULTIPLIERS), retries.DEFAULT_MULTIPLIER
    )
    retry_budget: int = setting(whole(0, retry_limits.LARGEST_BUDGET, off=True), _BUDGET.most)
    retry_budget_window: timedelta = lasting(1, retry_limits.LONGEST_BUDGET_WINDOW, _BUDGET.window)
    retry_budget_on_exhausted: str = setting(
        one_of(*retry_limits.OnExhausted), retry_limits.OnExhausted.DEFER.value
    )
    catch_up_budget: int = setting(whole(0, retry_limits.LARGEST_BUDGET, off=True), 0)
    crash_limit: int = setting(
        whole(outcome.CRASH_LIMITS[0], outcome.CRASH_LIMITS[-1]), outcome.CRASH_LIMIT
    )
    crash_window: timedelta = lasting(1, 86_400, outcome.CRASH_WINDOW)
    timeout_is_crash: bool = setting(switch, default=True)
    circuit_breaker: bool = setting(switch, default=False)
    circuit_breaker_error_rate: float = setting(
        decimal(*retry_limits.ERROR_RATES), _BREAKER.error_rate
    )
    circuit_breaker_min_attempts: int = setting(
        whole(retry_limits.LEASTS[0], retry_limits.LEASTS[-1]), _BREAKER.least
    )
    circuit_breaker_window: timedelta = lasting(
        1, retry_limits.LONGEST_BREAKER_WINDOW, _BREAKER.window
    )
    circuit_breaker_pause: timedelta = lasting(
        1, retry_limits.LONGEST_BREAKER_WINDOW, _BREAKER.pause
    )
    alert_failed: int = setting(whole(0, rules.LARGEST, off=True), _ALERTS.failed)
    alert_warning: int = setting(whole(0, rules.LARGEST, off=True), _ALERTS.warning)
    alert_critical: int = setting(whole(0, rules.LARGEST, off=True), _ALERTS.critical)
    alert_retries: int = setting(whole(0, retries.ATTEMPTS[-1], off=True), _ALERTS.retries)
    alert_retry_rate: float = setting(decimal(0, 1, off=True), _ALERTS.retry_rate)
    alert_runbook: str = setting(text(rules.LONGEST_RUNBOOK), rules.RUNBOOK)
    refresh: timedelta = lasting(1, 3_600, timedelta(seconds=5))
    lease: timedelta = lasting(3, 3_600, timedelta(seconds=30))
    shutdown_grace: timedelta = lasting(0, 86_400, timedelta(seconds=30))
    concurrency: int | None = setting(whole(1, MOST_AT_A_TIME))
    served: Mapping[str, int] = setting(served_queues, {MAIN_QUEUE: 1}, name="queues")
    queue_type: str = setting(one_of("quorum", "classic"), "quorum")
    message_deduplication: bool = setting(switch, default=False)
    failed_monitor: bool = setting(switch, default=True)
    foreign_queues: tuple[str, ...] = setting(some_queues, ())
    foreign_messages: str = setting(one_of("accept", "refuse"), "accept")
    message_keys: tuple[str, ...] = setting(keys, (), name="message_key", secret=True)
    http_allowed_hosts: tuple[str, ...] = setting(hosts, ())
    smtp_url: str | None = setting(checked(MailServer.parse), secret=True)
    smtp_from: str = setting(checked(checked_address), "cronhare@localhost")
    listen_address: ListenAddress = setting(
        ListenAddress.parse, ListenAddress.parse("127.0.0.1:8520"), name="web_address"
    )
    probes: ListenAddress | None = setting(ListenAddress.parse, name="probe_address")
    metrics_schedules: int = setting(whole(0, LARGEST_METRICS), 200)
    web_login: str = setting(one_of(*Login), Login.AUTO.value)
    web_hosts: tuple[str, ...] = setting(host_names, ())
    display_timezone: str | None = setting(checked(find_zone))
    tracing: bool = setting(switch, default=False)
    log_format: str = setting(one_of("text", "json"), "text")
    log_level: str = setting(one_of("DEBUG", "INFO", "WARN", "ERROR"), "INFO")
    sources: Sources = attrs.field(factory=lambda: Sources({}), repr=False, eq=False)

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(self.served)

    @property
    def ledger(self) -> LedgerFile | LedgerServer:
        return parse_ledger(self.database_url)

    @property
    def ledger_kind(self) -> str:
        return "file" if isinstance(self.ledger, LedgerFile) else "server"

    @property
    def broker_kind(self) -> str:
        return "memory" if self.broker_url == MEMORY else "amqp"

    @property
    def in_memory(self) -> bool:
        return self.broker_url == MEMORY

    @property
    def bell_kind(self) -> str:
        if not self.in_memory:
            return "broker"
        return "fifo" if self.ledger_kind == "file" else "none"

    @property
    def accepts_foreign(self) -> bool:
        return self.foreign_messages == "accept"

    @property
    def allowed_hosts(self) -> AllowedHosts:
        return AllowedHosts.parse(self.http_allowed_hosts)

    @property
    def mail_server(self) -> MailServer | None:
        return None if self.smtp_url is None else MailServer.parse(self.smtp_url)

    @property
    def counting_kind(self) -> str:
        return "silent" if self.probes is None else "prometheus"

    @property
    def tracing_kind(self) -> str:
        return "opentelemetry" if self.tracing else "off"

    @property
    def retry_delay(self) -> timedelta:
        """How long `cron_scheduler_retry` holds back what is nacked."""
        return timedelta(milliseconds=self.retry_delay_ms)

    @property
    def policy(self) -> retries.RetryPolicy:
        backoff = retries.Backoff(delay=self.retry_delay_ms, multiplier=self.retry_delay_multiplier)
        return retries.RetryPolicy(attempts=self.max_retries + 1, backoff=backoff)

    @property
    def limits(self) -> retry_limits.RetryLimits:
        budget = retry_limits.BudgetPolicy(
            most=self.retry_budget,
            window=self.retry_budget_window,
            on_exhausted=retry_limits.OnExhausted(self.retry_budget_on_exhausted),
        )
        breaker = retry_limits.BreakerPolicy(
            error_rate=self.circuit_breaker_error_rate,
            least=self.circuit_breaker_min_attempts,
            window=self.circuit_breaker_window,
            pause=self.circuit_breaker_pause,
        )
        return retry_limits.RetryLimits(
            budget=budget if self.retry_budget else None,
            breaker=breaker if self.circuit_breaker else None,
        )

    @property
    def catch_up(self) -> retry_limits.BudgetPolicy | None:
        """How many late runs begin in a minute; None for any number."""
        return retry_limits.catch_up_policy(self.catch_up_budget)

    @property
    def crash_policy(self) -> outcome.CrashPolicy:
        return outcome.CrashPolicy(
            limit=self.crash_limit, window=self.crash_window, timeouts=self.timeout_is_crash
        )

    @property
    def alert_policy(self) -> rules.AlertPolicy:
        return rules.AlertPolicy(
            failed=self.alert_failed,
            warning=self.alert_warning,
            critical=self.alert_critical,
            retries=self.alert_retries,
            retry_rate=self.alert_retry_rate,
            runbook=self.alert_runbook,
        )

    def called(self, setting: str) -> str:
        found = self.sources.found.get(setting)
        return found.name if found else f"{PREFIX}{setting.upper()}"

    @classmethod
    def declared(cls) -> dict[str, tuple[str, Declared]]:
        declared = {each.name: each.metadata.get(_DECLARED) for each in attrs.fields(cls)}
        return {
            one.name or field + one.unit: (field, one) for field, one in declared.items() if one
        }

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
        for name, found in sources.found.items():
            field, one = declared[name]
            try:
                values[field] = one.form(_readable(found.text))
            except ValueError as error:
                faults.append(f"{found.name}{_shown(one, found)}: {error}")
        if faults:
            raise SettingsInvalid(tuple(faults))
        return cls(**values, sources=sources)


def _readable(text: str) -> str:
    if any(sign < " " or "\ud800" <= sign <= "\udfff" for sign in text):
        raise ValueError("has a control character, or is no UTF-8")
    return text


def _shown(declared: Declared, found: SettingText) -> str:
    """Quote a variable that cannot hold a password."""
    if declared.secret or found.source != "environment":
        return ""
    return f" (it is {echo(found.text)})"


@attrs.frozen(kw_only=True)
class SettingView:
    """A setting. *source* is `environment`, `default`, or a file's path.

    *value* has the setting's own type, in the unit that its name says. Addresses are without
    passwords; another secret is `***` where it is set, and None where it is not.
    """

    name: str
    value: str | int | float | bool | tuple[str, ...] | None
    source: str


@attrs.frozen(kw_only=True)
class SettingsView:
    """All settings, the settings *file* that was read, and what means nothing."""

    file: str | None
    settings: tuple[SettingView, ...]
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, settings: Settings) -> Self:
        sources = settings.sources
        return cls(
            file=None if sources.file is None else str(sources.file),
            settings=tuple(_views(settings)),
            unknown=tuple(sources.say_unknown()),
        )


def _views(settings: Settings) -> Iterator[SettingView]:
    broker = settings.broker_url
    addresses = {
        "database_url": str(settings.ledger),
        "broker_url": MEMORY if broker == MEMORY else str(BrokerServer.parse(broker)),
    }
    for name, (field, declared) in Settings.declared().items():
        found = settings.sources.found.get(name)
        value = getattr(settings, field)
        if declared.secret:
            value = addresses.get(name, None if found is None else "***")
        yield SettingView(
            name=name, value=_plain(value), source="default" if found is None else found.source
        )


def _plain(value: Any) -> Any:  # noqa: ANN401 - what a form gives
    match value:
        case timedelta():
            return value.total_seconds()
        case Path() | ListenAddress():
            return str(value)
        case dict():
            return queue_texts(value)
    return value
