"""From `[notify.NAME]` tables, and what schedules and tasks say of them, to subscriptions."""

import os
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import attrs
from msgspec import Meta

from cronhare.adapters.plain_files import read_plain_file
from cronhare.domain.addresses import WebAddress, checked_address
from cronhare.domain.schedules.alert_rules import Rule
from cronhare.domain.schedules.draft import Fault
from cronhare.domain.schedules.jobs_file import MOST_FAULTS
from cronhare.domain.schedules.notify import (
    ALL_ALERTS,
    BAD_ENDS,
    DEFAULT_DIGEST,
    DEFAULT_TIMEOUT,
    LARGEST_DIGEST,
    LONGEST_TIMEOUT,
    MOST_ADDRESSES,
    MOST_NAMED,
    MOST_PINGS,
    MOST_TARGETS,
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
    by_number,
)
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.durations import say_duration
from cronhare.domain.texts.echo import echo
from cronhare.domain.texts.hint import hint
from cronhare.domain.texts.names import NAME

from .alert_conditions import FIELDS as CONDITIONS
from .alert_conditions import read_conditions
from .apprise import read_services
from .fields import read_duration
from .schema import Command, User
from .tables import read_table, written

#: Bytes of a file with a secret, and characters of a secret.
LARGEST_SECRET: Final = 4_096
SHORTEST_SECRET: Final = 16

_FUNCTION: Final = r"[A-Za-z_][A-Za-z0-9_.]{0,200}:[A-Za-z_][A-Za-z0-9_.]{0,200}"
_WAYS: Final = ("command", "webhook", "email", "python", "apprise")

#: Where the addresses of services may stand besides: they are secrets.
_APPRISE: Final = ("apprise", "apprise_file", "apprise_env")

#: In the manner of the standard webhooks a secret is base64 behind this.
_ENCODED: Final = "whsec_"

Function = Annotated[
    str, Meta(pattern=rf"^{_FUNCTION}\Z", description='a function, such as "alerts:told"')
]
Names = Annotated[
    list[str], Meta(max_length=MOST_NAMED, description=f"a list of {MOST_NAMED} names at most")
]


@attrs.frozen(kw_only=True)
class NotifyTable:
    """`[notify.NAME]`: who is told, of what, and how."""

    events: list[EventKind] | None = None
    alerts: list[Rule] | None = None
    digest: int | str | None = None
    repeat: Repeat | None = None
    command: Command | None = None
    webhook: str | None = None
    secret_file: str | None = None
    secret_env: str | None = None
    email: str | list[str] | None = None
    python: Function | None = None
    apprise: str | list[str] | None = None
    apprise_file: str | None = None
    apprise_env: str | None = None
    timeout: str | None = None
    cwd: str | None = None
    user: User | None = None


@attrs.frozen(kw_only=True)
class NotificationTable:
    """What defaults, a class, a task or a schedule say of events."""

    notify: Names | None = None
    on_failure: Command | None = None
    late_after: str | None = None


_FIELDS: Final = tuple(attrs.fields_dict(NotificationTable))

#: What a table has to say to be read here.
ALL_FIELDS: Final = (*_FIELDS, *CONDITIONS)

#: What is wrong with asking for an alert of which nobody would be told.
NOBODY_HEARS: Final = 'nobody would be told: no [notify.NAME] has "alert" among its events'

#: A place in the file, and what is wrong there.
Found = Iterator[tuple[str, Fault]]


@attrs.define
class SubscriptionReader:
    """Reads them for one file. *faults* are in the order of the file."""

    folder: Path
    source: str
    faults: list[tuple[str, Fault]] = attrs.field(factory=list)
    targets: dict[str, Target] = attrs.field(factory=dict)

    def read(
        self,
        *,
        notify: Mapping[str, Any],
        defaults: object,
        classes: Mapping[str, Any],
        tasks: Mapping[str, tuple[object, Task]],
        schedules: Mapping[str, tuple[object, str]],
    ) -> Subscriptions:
        """Read *notify*, and beside each task and schedule, as written, what it says of events.

        *schedules* have the names of their tasks.
        """
        self._read_targets(notify)
        usual = self._settings_of("defaults", defaults)
        by_class = {
            name: _over(self._settings_of(f"classes.{name}", table), usual)
            for name, table in classes.items()
        }
        of_tasks = {
            name: _over(
                self._settings_of(f"tasks.{name}", table, task.user),
                by_class.get(task.task_class or "", usual),
            )
            for name, (table, task) in tasks.items()
        }
        for name, (_, task) in tasks.items():
            if task.reminder is not None:
                found = self._unknown("remind", task.reminder.targets)
                self.faults += [(f"tasks.{name}", fault) for fault in found]
        users = {name: task.user for name, (_, task) in tasks.items()}
        of_schedules = {
            name: self._settings_of(f"schedules.{name}", table, users.get(task))
            for name, (table, task) in schedules.items()
        }
        for name, (_, task_name) in schedules.items():
            if task_name not in tasks:  # a topic's: no task hands the defaults on to it
                of_schedules[name] = _over(of_schedules[name], usual)
        return Subscriptions(
            source=self.source,
            pings=self._pings({name: table for name, (table, _) in schedules.items()}),
            targets=self.targets,
            schedules={
                name: each
                for name, each in of_schedules.items()
                if each != NO_NOTIFICATION_SETTINGS
            },
            tasks=of_tasks,
            task_of={name: task for name, (_, task) in schedules.items()},
            refs=by_number(task for _, task in tasks.values()),
        )

    def _read_targets(self, tables: Mapping[str, Any]) -> None:
        if len(tables) > MOST_TARGETS:
            self.faults.append(("", Fault("notify", f"has more than {MOST_TARGETS} targets")))
            return
        for name, content in tables.items():
            if len(self.faults) > MOST_FAULTS:
                return
            found = list[Fault]()
            if not re.fullmatch(NAME, name):
                found.append(Fault("name", f"{echo(name)} is not allowed: a-z, 0-9, . _ -"))
            table = read_table(NotifyTable, content, found)
            means = self._means(table, found)
            timeout = _timeout(table.timeout, found)
            if table.alerts is not None and EventKind.ALERT not in (table.events or ()):
                found.append(Fault("alerts", 'chooses among alerts, and "alert" is not in events'))
            digest = _digest(table.digest, means, found)
            by_default = Repeat.FIRST if isinstance(means, ByEmail) else Repeat.ALWAYS
            repeat = table.repeat or by_default
            events = BAD_ENDS if table.events is None else frozenset(table.events)
            if repeat is Repeat.FIRST and events & BAD_ENDS:
                events |= {EventKind.RECOVERED}  # else its silence would tell nothing
            self.faults += [(f"notify.{name}", fault) for fault in found]
            self.targets[name] = Target(
                name=name,
                means=means,
                events=events,
                timeout=timeout,
                digest=digest,
                repeat=repeat,
                alerts=ALL_ALERTS if table.alerts is None else frozenset(table.alerts),
            )

    def _means(self, table: NotifyTable, faults: list[Fault]) -> Means:
        services = [way for way in _APPRISE if getattr(table, way) is not None]
        given = [*services, *(way for way in _WAYS[:-1] if getattr(table, way) is not None)]
        at_fault = {fault.field for fault in faults}
        if len(given) != 1 and not at_fault & {"", *_WAYS, *_APPRISE}:
            faults.append(Fault("", f"needs one of {', '.join(_WAYS)}, and has {len(given)}"))
        if (table.secret_file or table.secret_env) and table.webhook is None:
            faults.append(Fault("secret_file", "is for a webhook alone"))
        folder = self.folder / table.cwd if table.cwd else self.folder
        if services:
            file = table.apprise_file
            return read_services(
                table.apprise,
                file=None if file is None else self.folder / file,
                variable=table.apprise_env,
                faults=faults,
            )
        if table.webhook is not None:
            return self._webhook(table, table.webhook, faults)
        if table.email is not None:
            return _email(table.email, faults)
        if table.python is not None:
            return ByListener(function=table.python, cwd=folder)
        faults += _faults_of_command("command", table.command or ())
        return ByCommand(command=tuple(table.command or ("-",)), cwd=folder, user=table.user)

    def _webhook(self, table: NotifyTable, url: str, faults: list[Fault]) -> ByWebhook:
        address = WebAddress.parse("https://unusable.invalid")
        try:
            address = WebAddress.parse(url)
        except ValueError as error:
            faults.append(Fault("webhook", str(error)))
        if table.secret_file and table.secret_env:
            faults.append(Fault("secret_file", "and secret_env are two, and one is used"))
        secret, lacking = self._secret(table, faults), None
        if table.secret_env is not None and table.secret_env not in os.environ:
            lacking = f"secret_env names {echo(table.secret_env)}, a variable that is not set"
        return ByWebhook(address=address, secret=secret, lacks=lacking)

    def _secret(self, table: NotifyTable, faults: list[Fault]) -> bytes | None:
        """Read a secret; no fault shows any of it."""
        field, text = "secret_env", None
        if table.secret_env is not None:
            # Not set, it is no fault of the file: who checks or lists it needs no secret.
            text = os.environ.get(table.secret_env)
        elif table.secret_file is not None:
            field = "secret_file"
            try:
                content = read_plain_file(self.folder / table.secret_file, most=LARGEST_SECRET)
                text = content[: LARGEST_SECRET + 1].decode()
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or "is no text"
                faults.append(Fault(field, f"cannot be read: {why}"))
        if text is None:
            return None
        try:
            return _decoded(text.strip())
        except ValueError as error:
            faults.append(Fault(field, str(error)))
            return None

    def _settings_of(
        self, place: str, table: object, user: str | None = None
    ) -> NotificationSettings:
        if not isinstance(table, Mapping) or not any(name in table for name in ALL_FIELDS):
            return NO_NOTIFICATION_SETTINGS
        found = list[Fault]()
        said = {name: table[name] for name in _FIELDS if name in table}
        settings = read_table(NotificationTable, said, found)
        names = tuple(dict.fromkeys(settings.notify or ()))
        found += self._unknown("notify", names)
        late = read_duration("late_after", settings.late_after, found)
        if late is not None and not late:
            found.append(Fault("late_after", "must be longer than nothing"))
        conditions = read_conditions(table, found)
        if not conditions.is_empty and not self._hears_alerts():
            field = next(name for name in CONDITIONS if name in table)
            found.append(Fault(field, NOBODY_HEARS))
        command = self._on_failure(place, settings.on_failure, user, found)
        self.faults += [(place, fault) for fault in found]
        known = tuple(name for name in names if name in self.targets)
        return NotificationSettings(
            notify=None if settings.notify is None else known,
            on_failure=command,
            late_after=late,
            conditions=conditions,
        )

    def _hears_alerts(self) -> bool:
        return any(EventKind.ALERT in target.events for target in self.targets.values())

    def _pings(self, schedules: Mapping[str, object]) -> Mapping[str, Target]:
        found = dict[str, Target]()
        for name, table in schedules.items():
            url = table.get("ping") if isinstance(table, Mapping) else None
            if url is None:
                continue
            try:
                address = WebAddress.parse(url if isinstance(url, str) else "")
            except ValueError as error:
                self.faults.append((f"schedules.{name}", Fault("ping", str(error))))
                continue
            means = ByPing(address=address)
            target = f"schedules.{name}:ping"
            found[name] = Target(name=target, means=means, events=frozenset(), timeout=PING_TIMEOUT)
        if len(found) > MOST_PINGS:
            self.faults.append(("", Fault("ping", f"is given by more than {MOST_PINGS} schedules")))
        return found

    def _unknown(self, field: str, names: Sequence[str]) -> Iterator[Fault]:
        for name in names:
            if name not in self.targets:
                there = hint(name, list(self.targets)) if self.targets else "there are none"
                yield Fault(field, f"there is no notify.{echo(name)}; {there}")

    def _on_failure(
        self, place: str, command: Sequence[str] | None, user: str | None, faults: list[Fault]
    ) -> Target | None:
        if command is None:
            return None
        faults += _faults_of_command("on_failure", command)
        means = ByCommand(command=tuple(command), cwd=self.folder, user=user)
        return Target(name=f"{place}:on_failure", means=means)


def _over(near: NotificationSettings, far: NotificationSettings) -> NotificationSettings:
    """Let what is said nearer go before."""
    return NotificationSettings(
        notify=far.notify if near.notify is None else near.notify,
        on_failure=near.on_failure or far.on_failure,
        late_after=near.late_after or far.late_after,
        conditions=near.conditions.over(far.conditions),
    )


def _timeout(text: str | None, faults: list[Fault]) -> timedelta:
    timeout = read_duration("timeout", text, faults)
    if timeout is None:
        return DEFAULT_TIMEOUT
    if not timedelta(0) < timeout <= LONGEST_TIMEOUT:
        longest = say_duration(LONGEST_TIMEOUT)
        faults.append(Fault("timeout", f"must be longer than nothing, and at most {longest}"))
        return DEFAULT_TIMEOUT
    return timeout


def _digest(given: int | str | None, means: Means, faults: list[Fault]) -> int:
    """Read how many events of a kind are told each by itself; people are not told of all."""
    if given is None:
        return DEFAULT_DIGEST if isinstance(means, ByApprise | ByEmail) else 0
    if given == "off":
        return 0
    if isinstance(given, int) and not isinstance(given, bool) and 0 < given <= LARGEST_DIGEST:
        return given
    allowed = f"a number from 1 to {LARGEST_DIGEST:,}, nor off"
    faults.append(Fault("digest", f"{written(given)} is no {allowed}"))
    return 0


def _email(given: str | list[str], faults: list[Fault]) -> ByEmail:
    addresses = [given] if isinstance(given, str) else given
    if not 0 < len(addresses) <= MOST_ADDRESSES:
        faults.append(Fault("email", f"must be 1 to {MOST_ADDRESSES} addresses"))
        return ByEmail(to=())
    for address in addresses:
        try:
            checked_address(address)
        except ValueError as error:
            faults.append(Fault("email", f"{echo(address)} {error}"))
    return ByEmail(to=tuple(dict.fromkeys(addresses)))


def _faults_of_command(field: str, command: Sequence[str]) -> Iterator[Fault]:
    if command and not command[0]:
        yield Fault(field, "its first text names the program, and is empty")
    if any("\0" in text for text in command):
        yield Fault(field, "has a NUL character, which no program can be given")


def _decoded(text: str) -> bytes:
    if len(text) > LARGEST_SECRET or len(text.removeprefix(_ENCODED)) < SHORTEST_SECRET:
        raise ValueError(f"must have {SHORTEST_SECRET} to {LARGEST_SECRET:,} characters")
    if not text.startswith(_ENCODED):
        return text.encode()
    try:
        return b64decode(text.removeprefix(_ENCODED), validate=True)
    except NotBase64:
        raise ValueError(f"begins with {_ENCODED}, and goes on with what is no base64") from None
