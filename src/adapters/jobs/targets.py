"""`[notify.NAME]`, and what schedules, tasks, classes and defaults say of events: who is told."""

import os
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import attrs
from msgspec import Meta

from cronhare.adapters.addresses import checked_address
from cronhare.adapters.extras import ExtraMissing, require
from cronhare.domain.addresses import AppriseAddress, WebAddress
from cronhare.domain.events.rules import AlertConditions, Rule
from cronhare.domain.events.targets import (
    ALL_ALERTS,
    BAD_ENDS,
    BY_DEFAULT,
    DEFAULT_DIGEST,
    DEFAULT_TIMEOUT,
    LARGEST_DIGEST,
    LONGEST_TIMEOUT,
    MOST_ADDRESSES,
    MOST_NAMED,
    NO_NOTIFICATION_SETTINGS,
    PING_TIMEOUT,
    ByApprise,
    ByCommand,
    ByEmail,
    ByListener,
    ByPing,
    ByWebhook,
    EventKind,
    Means,
    NotificationSettings,
    Repeat,
    Subscriptions,
    Target,
)
from cronhare.domain.reading import Fault, Invalid, Reads, faults_within, written
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.moments import parse_duration, say_duration
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import hint

from .fields import Command, DeadlineAsWritten, FactorAsWritten, SizeAsWritten, SomeTime, User

#: What is wrong with asking for an alert of which nobody would be told.
NOBODY_HEARS = 'nobody would be told: no [notify.NAME] has "alert" among its events'


_Names = Annotated[
    list[str], Meta(max_length=MOST_NAMED, description=f"a list of {MOST_NAMED} names at most")
]


@attrs.frozen(kw_only=True, slots=False)  # a table may have another base besides
class EventsTable:
    """Who is told of which events, and what alerts, where nothing nearer says it."""

    notify: _Names | None = None
    on_failure: Command | None = None
    late_after: SomeTime | None = None
    not_started_by: DeadlineAsWritten = None
    not_finished_by: DeadlineAsWritten = None
    longer_than_usual: FactorAsWritten = None
    least_output: SizeAsWritten = None

    @property
    def conditions(self) -> AlertConditions:
        return AlertConditions(**{name: getattr(self, name) for name in _CONDITIONS})


#: The fields of a table that say when a run alerts.
_CONDITIONS: Final = tuple(attrs.fields_dict(AlertConditions))


@attrs.define(kw_only=True)
class Subscribers:
    """Who is told of what in one file, as far as it is read: the nearest says it.

    *folder* is the file's, *targets* are its `[notify.NAME]`.
    """

    folder: Path
    targets: Mapping[str, Target]
    usual: NotificationSettings = NO_NOTIFICATION_SETTINGS
    classes: dict[str, NotificationSettings] = attrs.field(factory=dict)
    tasks: dict[str, NotificationSettings] = attrs.field(factory=dict)
    schedules: dict[str, NotificationSettings] = attrs.field(factory=dict)
    pings: dict[str, Target] = attrs.field(factory=dict)

    def read_defaults(self, table: EventsTable, faults: list[Fault]) -> None:
        self.usual = self._settings_of("defaults", table, None, faults)

    def read_class(self, name: str, table: EventsTable, faults: list[Fault]) -> None:
        own = self._settings_of(f"classes.{name}", table, None, faults)
        self.classes[name] = _over(own, self.usual)

    def read_task(self, task: Task, table: EventsTable, faults: list[Fault]) -> None:
        own = self._settings_of(f"tasks.{task.name}", table, task.user, faults)
        self.tasks[task.name] = _over(own, self.classes.get(task.task_class or "", self.usual))
        if task.reminder is not None:
            faults += self._unknown("remind", task.reminder.targets)

    def read_schedule(
        self,
        name: str,
        table: EventsTable,
        ping: WebAddress | None,
        task: Task | None,
        faults: list[Fault],
    ) -> None:
        user = None if task is None else task.user
        own = self._settings_of(f"schedules.{name}", table, user, faults)
        own = _over(own, self.usual) if task is None else own
        if own != NO_NOTIFICATION_SETTINGS:
            self.schedules[name] = own
        if ping is not None:
            self.pings[name] = Target(
                name=f"schedules.{name}:ping",
                means=ByPing(address=ping),
                events=frozenset(),
                timeout=PING_TIMEOUT,
            )

    def subscriptions(
        self, source: str, tasks: Mapping[str, Task], task_of: Mapping[str, str]
    ) -> Subscriptions:
        return Subscriptions(
            source=source,
            pings=self.pings,
            targets=self.targets,
            schedules={
                name: _over(
                    self.schedules.get(name, NO_NOTIFICATION_SETTINGS),
                    self.tasks.get(task, NO_NOTIFICATION_SETTINGS),
                )
                for name, task in task_of.items()
            },
            tasks=self.tasks,
            refs={task.ref: task.name for task in tasks.values()},
        )

    def _settings_of(
        self, place: str, table: EventsTable, user: str | None, faults: list[Fault]
    ) -> NotificationSettings:
        conditions, command, names = table.conditions, None, None
        if table.notify is not None:
            faults += self._unknown("notify", dict.fromkeys(table.notify))
            names = tuple(dict.fromkeys(name for name in table.notify if name in self.targets))
        if not conditions.is_empty and not any(
            EventKind.ALERT in target.events for target in self.targets.values()
        ):
            field = next(name for name in _CONDITIONS if getattr(table, name) is not None)
            faults.append(Fault(field, NOBODY_HEARS))
        if table.on_failure is not None:
            means = ByCommand(command=tuple(table.on_failure), cwd=self.folder, user=user)
            command = Target(name=f"{place}:on_failure", means=means)
        return NotificationSettings(
            notify=names, on_failure=command, late_after=table.late_after, conditions=conditions
        )

    def _unknown(self, field: str, names: Iterable[str]) -> Iterator[Fault]:
        for name in names:
            if name not in self.targets:
                there = hint(name, list(self.targets)) if self.targets else "there are none"
                yield Fault(field, f"there is no notify.{echo(name)}; {there}")


def _over(near: NotificationSettings, far: NotificationSettings) -> NotificationSettings:
    return NotificationSettings(
        notify=far.notify if near.notify is None else near.notify,
        on_failure=near.on_failure or far.on_failure,
        late_after=near.late_after or far.late_after,
        conditions=near.conditions.over(far.conditions),
    )


T = TypeVar("T")

#: Bytes of a file with a secret, and characters of a secret.
LARGEST_SECRET: Final = 4_096
SHORTEST_SECRET: Final = 16

#: Bytes of a file with addresses of services.
LARGEST_SERVICES: Final = 64 * 1024

_MOST_BYTES: Final = {"secret": LARGEST_SECRET, "apprise": LARGEST_SERVICES}
_FUNCTION: Final = r"[A-Za-z_][A-Za-z0-9_.]{0,200}:[A-Za-z_][A-Za-z0-9_.]{0,200}"
_WAYS: Final = ("command", "webhook", "email", "python", "apprise")

#: Where the addresses of services may stand besides: they are secrets.
_APPRISE: Final = ("apprise", "apprise_file", "apprise_env")

#: In the manner of the standard webhooks a secret is base64 behind this.
_ENCODED: Final = "whsec_"


def _timeout(text: str) -> timedelta:
    timeout = parse_duration(text)
    if not timedelta(0) < timeout <= LONGEST_TIMEOUT:
        longest = say_duration(LONGEST_TIMEOUT)
        raise ValueError(f"must be longer than nothing, and at most {longest}")
    return timeout


def _digest(given: object) -> int:
    if given == "off":
        return 0
    if isinstance(given, int) and not isinstance(given, bool) and 0 < given <= LARGEST_DIGEST:
        return given
    raise ValueError(f"{written(given)} is no number from 1 to {LARGEST_DIGEST:,}, nor off")


def _addresses(given: str | list[str], parse: Callable[[str], T], what: str) -> tuple[T, ...]:
    texts = [given] if isinstance(given, str) else given
    if not 0 < len(texts) <= MOST_ADDRESSES:
        raise ValueError(f"must be 1 to {MOST_ADDRESSES} {what}")
    found, faults = dict[T, None](), list[Fault]()
    for number, text in enumerate(texts, start=1):
        try:
            found[parse(text)] = None
        except ValueError as error:  # it quotes no secret
            which = f"address {number} " if len(texts) > 1 else ""
            faults.append(Fault("", f"{which}{error}"))
    if faults:
        raise Invalid(faults)
    return tuple(found)


def _mail_address(text: str) -> str:
    try:
        return checked_address(text)
    except ValueError as error:
        raise ValueError(f"{echo(text)} {error}") from error


def _mail(given: str | list[str]) -> ByEmail:
    return ByEmail(to=_addresses(given, _mail_address, "addresses"))


def _services(given: str | list[str]) -> ByApprise:
    services = _addresses(given, AppriseAddress.parse, "addresses of services")
    try:
        require("notify")
    except ExtraMissing as missing:
        return ByApprise(services=services, lacks=str(missing))
    return ByApprise(services=services)


def _secret(text: str) -> bytes:
    """Read a secret; no fault shows any of it."""
    text = text.strip()
    if len(text) > LARGEST_SECRET or len(text.removeprefix(_ENCODED)) < SHORTEST_SECRET:
        raise ValueError(f"must have {SHORTEST_SECRET} to {LARGEST_SECRET:,} characters")
    if not text.startswith(_ENCODED):
        return text.encode()
    try:
        return b64decode(text.removeprefix(_ENCODED), validate=True)
    except NotBase64:
        raise ValueError(f"begins with {_ENCODED}, and goes on with what is no base64") from None


# `Annotated` names what is written.
if TYPE_CHECKING:
    _Timeout = timedelta
    _Mail = ByEmail
    _Webhook = WebAddress
    _Services = ByApprise
else:
    _Timeout = Annotated[str, Reads(_timeout)]
    _Webhook = Annotated[str, Reads(WebAddress.parse)]
    _Mail = Annotated[str | list[str], Reads(_mail)]
    _Services = Annotated[str | list[str], Reads(_services)]

Function = Annotated[
    str, Meta(pattern=rf"^{_FUNCTION}\Z", description='a function, such as "alerts:told"')
]


@attrs.frozen(kw_only=True)
class NotifyTable:
    """`[notify.NAME]`."""

    events: list[EventKind] | None = None
    alerts: list[Rule] | None = None
    digest: Annotated[Any, Reads(_digest)] = None
    repeat: Repeat | None = None
    command: Command | None = None
    webhook: _Webhook | None = None
    secret_file: str | None = None
    secret_env: str | None = None
    email: _Mail | None = None
    python: Function | None = None
    apprise: _Services | None = None
    apprise_file: str | None = None
    apprise_env: str | None = None
    timeout: _Timeout = DEFAULT_TIMEOUT
    cwd: str | None = None
    user: User | None = None


def read_target(name: str, table: NotifyTable, folder: Path, faults: list[Fault]) -> Target:
    """Make a target; *folder* is that of the jobs file. People are not told of each of many events.

    A secret that is named, and not there, is no fault: who checks or lists a file needs none.
    """
    means = _means(table, folder, faults)
    if table.alerts is not None and EventKind.ALERT not in (table.events or ()):
        faults.append(Fault("alerts", 'chooses among alerts, and "alert" is not in events'))
    repeat = table.repeat or (Repeat.FIRST if isinstance(means, ByEmail) else Repeat.ALWAYS)
    events = BY_DEFAULT if table.events is None else frozenset(table.events)
    if repeat is Repeat.FIRST and events & BAD_ENDS:
        events |= {EventKind.RECOVERED}  # else its silence would tell nothing
    usual = DEFAULT_DIGEST if isinstance(means, ByApprise | ByEmail) else 0
    return Target(
        name=name,
        means=means,
        events=events,
        timeout=table.timeout,
        digest=usual if table.digest is None else table.digest,
        repeat=repeat,
        alerts=ALL_ALERTS if table.alerts is None else frozenset(table.alerts),
    )


def _means(table: NotifyTable, folder: Path, faults: list[Fault]) -> Means:
    given = [way for way in {*_WAYS, *_APPRISE} if getattr(table, way) is not None]
    tried = {fault.field for fault in faults}
    if len(given) != 1 and not tried & {"", *_WAYS, *_APPRISE}:
        faults.append(Fault("", f"needs one of {', '.join(_WAYS)}, and has {len(given)}"))
    has_secret = bool(table.secret_file or table.secret_env)
    if has_secret and table.webhook is None and "webhook" not in tried:
        faults.append(Fault("secret_file", "is for a webhook alone"))
    if table.apprise is not None:
        return table.apprise
    if table.apprise_file is not None or table.apprise_env is not None:
        split = _lines if table.apprise_env is None else str.split
        services, lacks = _elsewhere(
            table, folder, "apprise", lambda text: _services(split(text)), faults
        )
        return services or ByApprise(services=(), lacks=lacks)
    if table.webhook is not None:
        if table.secret_file and table.secret_env:
            faults.append(Fault("secret_file", "and secret_env are two, and one is used"))
        secret, lacks = _elsewhere(table, folder, "secret", _secret, faults)
        return ByWebhook(address=table.webhook, secret=secret, lacks=lacks)
    if table.email is not None:
        return table.email
    cwd = folder / table.cwd if table.cwd else folder
    if table.python is not None:
        return ByListener(function=table.python, cwd=cwd)
    return ByCommand(command=tuple(table.command or ("-",)), cwd=cwd, user=table.user)


def _elsewhere(
    table: NotifyTable, folder: Path, what: str, read: Callable[[str], T], faults: list[Fault]
) -> tuple[T | None, str | None]:
    file, variable = getattr(table, f"{what}_file"), getattr(table, f"{what}_env")
    field = f"{what}_file" if variable is None else f"{what}_env"
    try:
        if variable is not None:
            text = os.environ.get(variable)
        elif file is not None:
            with (folder / file).open("rb") as opened:
                text = opened.read(_MOST_BYTES[what] + 1).decode()
        else:
            return None, None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "is no text"
        faults.append(Fault(field, f"cannot be read: {why}"))
        return None, None
    if text is None:
        return None, f"{field} names {echo(variable)}, a variable that is not set"
    try:
        return read(text), None
    except ValueError as error:
        faults += faults_within(field, error)
        return None, None


def _lines(text: str) -> list[str]:
    lines = map(str.strip, text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
