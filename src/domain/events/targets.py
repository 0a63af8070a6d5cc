"""Who is told of a schedule's events: the targets of a jobs file, and who names them.

What a target does, a command above all, comes from that file alone, never from a row or a message.
"""

import enum
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import PurePath
from typing import Final, TypeAlias

import attrs

from ..addresses import AppriseAddress, WebAddress
from ..schedules.task import TaskRef
from .rules import NO_CONDITIONS, AlertConditions, Rule

#: How long a target may take, unless it says so itself, and at most.
DEFAULT_TIMEOUT: Final = timedelta(seconds=30)
LONGEST_TIMEOUT: Final = timedelta(minutes=15)

#: How much later than due a run may begin before that is an event, unless its schedule says so.
DEFAULT_LATE_AFTER: Final = timedelta(minutes=5)

#: Targets of a file, and of one schedule or task; and addresses of mail of one target.
MOST_ADDRESSES: Final = 16
MOST_TARGETS: Final = 256
MOST_NAMED: Final = 16

#: Schedules of a file with a ping, and how long one may take.
MOST_PINGS: Final = 256
PING_TIMEOUT: Final = timedelta(seconds=10)


class EventKind(enum.StrEnum):
    """What may happen to a schedule that others want to know."""

    ARRIVED = "arrived"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    PAUSED = "paused"  # by itself, after failures in a row
    SKIPPED = "skipped"
    RECOVERED = "recovered"
    LATE = "late"
    ALERT = "alert"
    CLEARED = "cleared"  # an alert that holds no more


def type_of(kind: str) -> str:
    """Give the name that a kind of event has outside.

    >>> type_of("failed"), type_of("alert"), type_of("cleared")
    ('schedule.failed', 'alert', 'alert.cleared')
    """
    if kind == EventKind.CLEARED:
        return f"alert.{kind}"
    return kind if kind in {EventKind.ALERT, DIGEST, "ping"} else f"schedule.{kind}"


#: How a target is told of many events; and of how many each by itself, within a minute: people by
#: default, programs without limit.
DIGEST: Final = "digest"
DEFAULT_DIGEST: Final = 5
LARGEST_DIGEST: Final = 1_000


class Repeat(enum.StrEnum):
    """Whether a target is told each time that a schedule fails, or once until it recovers."""

    FIRST = "first"
    ALWAYS = "always"


#: A target that asks for alerts is told of all, unless it names some.
ALL_ALERTS: Final = frozenset(Rule)

#: How a run may end badly; and what a target is told unless it says otherwise, and an `on_failure`.
BAD_ENDS: Final = frozenset({EventKind.FAILED, EventKind.QUARANTINED})
BY_DEFAULT: Final = BAD_ENDS | {EventKind.PAUSED}


@attrs.frozen(kw_only=True)
class ByCommand:
    """A command that is given the event as JSON on its standard input."""

    command: tuple[str, ...]
    cwd: PurePath | None = None
    user: str | None = None


@attrs.frozen(kw_only=True)
class ByListener:
    """A function of Python, `module:function`, that is given the event in a process of its own."""

    function: str
    cwd: PurePath | None = None


@attrs.frozen(kw_only=True)
class ByWebhook:
    """A POST of the event as JSON, signed with *secret*; *lacks* says why it is not here."""

    address: WebAddress
    secret: bytes | None = attrs.field(default=None, repr=False)
    lacks: str | None = None


@attrs.frozen(kw_only=True)
class ByEmail:
    """A mail to these addresses."""

    to: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ByApprise:
    """A message to services such as Slack; *lacks* says why they cannot be told here."""

    services: tuple[AppriseAddress, ...]
    lacks: str | None = None


@attrs.frozen(kw_only=True)
class ByPing:
    """An address that is asked when a run begins, and when it ends."""

    address: WebAddress


Means: TypeAlias = ByCommand | ByListener | ByWebhook | ByEmail | ByApprise | ByPing


@attrs.frozen(kw_only=True)
class Target:
    """`[notify.NAME]`, or the command of an `on_failure`.

    *alerts* are those that it asks for. Of more than *digest* events of a kind within a minute it
    is told together; 0 is never. Of a schedule that fails each time it hears by *repeat*.
    """

    name: str
    means: Means
    events: frozenset[EventKind] = BY_DEFAULT
    timeout: timedelta = DEFAULT_TIMEOUT
    alerts: frozenset[Rule] = ALL_ALERTS
    digest: int = 0
    repeat: Repeat = Repeat.ALWAYS

    @property
    def in_order(self) -> bool:
        return isinstance(self.means, ByPing)


@attrs.frozen(kw_only=True)
class NotificationSettings:
    """What a schedule or task says of its events; *on_failure* is its command's target."""

    notify: tuple[str, ...] | None = None
    on_failure: Target | None = None
    late_after: timedelta | None = None
    conditions: AlertConditions = NO_CONDITIONS


NO_NOTIFICATION_SETTINGS: Final = NotificationSettings()


@attrs.frozen(kw_only=True)
class Subscriptions:
    """Who is told of what, by one jobs file.

    What its *tasks* say holds for schedules of no file as well. *refs* names those by their
    numbers: rows that people write know no name. *pings* hear of each run of a schedule.
    """

    source: str | None = None
    targets: Mapping[str, Target] = attrs.field(factory=dict[str, Target])
    schedules: Mapping[str, NotificationSettings] = attrs.field(
        factory=dict[str, NotificationSettings]
    )
    tasks: Mapping[str, NotificationSettings] = attrs.field(factory=dict[str, NotificationSettings])
    refs: Mapping[TaskRef, str] = attrs.field(factory=dict[TaskRef, str])
    pings: Mapping[str, Target] = attrs.field(factory=dict[str, Target])

    def settings(self, schedule: str, task: str | None) -> NotificationSettings:
        of_task = self.tasks.get(task or "", NO_NOTIFICATION_SETTINGS)
        return self.schedules.get(schedule, of_task)

    @cached_property
    def is_empty(self) -> bool:
        named = any(each.notify for each in (*self.schedules.values(), *self.tasks.values()))
        return not (named or self.alerted or self._commands)

    @property
    def told_once(self) -> frozenset[str]:
        return frozenset(n for n, each in self.targets.items() if each.repeat is Repeat.FIRST)

    @property
    def alerted(self) -> tuple[Target, ...]:
        """The targets that want to know of alerts: no schedule has to name them."""
        return tuple(each for each in self.targets.values() if EventKind.ALERT in each.events)

    def told_of_alert(
        self, kind: EventKind, rule: str, schedule: str | None, task: str | None
    ) -> tuple[Target, ...]:
        """Give the targets that are told of an alert, or of its end.

        One of a *schedule* is told to those that it names, if they ask for alerts; where it names
        none such, and where it is of no schedule, to all that ask for them.
        """
        all_ = (each for each in self.targets.values() if kind in each.events)
        asking = tuple(each for each in all_ if rule in each.alerts)
        if schedule is None:
            return asking
        named = {each.name for each in self.recipients(EventKind.ALERT, schedule, task)}
        return tuple(each for each in asking if each.name in named) if named else asking

    @property
    def watched(self) -> Mapping[str, AlertConditions]:
        found = self.schedules.items()
        return {name: it.conditions for name, it in found if not it.conditions.is_empty}

    @property
    def watched_tasks(self) -> Mapping[TaskRef, str]:
        """The tasks with such conditions: they hold for schedules of no file as well."""
        return {
            ref: name
            for ref, name in self.refs.items()
            if name in self.tasks and not self.tasks[name].conditions.is_empty
        }

    def knows(self, schedule: str, task: str | None) -> bool:
        return schedule in self.schedules or task in self.tasks

    def recipients(self, kind: str, schedule: str, task: str | None) -> tuple[Target, ...]:
        its = self.settings(schedule, task)
        told = (*(self.targets[name] for name in its.notify or ()), its.on_failure)
        return tuple(target for target in told if target and kind in target.events)

    def wanting(self, kind: EventKind) -> Mapping[str, tuple[Target, ...]]:
        found = ((name, self.recipients(kind, name, None)) for name in self.schedules)
        return {name: targets for name, targets in found if targets}

    def target(self, name: str) -> Target | None:
        return self.targets.get(name) or self._commands.get(name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (*self.targets, *self._commands)

    @cached_property
    def _commands(self) -> Mapping[str, Target]:
        settings = (*self.schedules.values(), *self.tasks.values())
        given = (*(each.on_failure for each in settings), *self.pings.values())
        return {target.name: target for target in given if target is not None}


#: Why no mail goes out.
NO_MAIL_SERVER = "CRON_SMTP_URL names no mail server"


def lacks(target: Target, *, has_mail: bool) -> str | None:
    match target.means:
        case ByWebhook(lacks=str() as what) | ByApprise(lacks=str() as what):
            return what
        case ByEmail() if not has_mail:
            return NO_MAIL_SERVER
    return None


def untellable(subscriptions: Subscriptions, *, has_mail: bool) -> Mapping[str, str]:
    found = {name: lacks(each, has_mail=has_mail) for name, each in subscriptions.targets.items()}
    return {name: why for name, why in found.items() if why is not None}


def without(names: Collection[str], subscriptions: Subscriptions) -> Subscriptions:
    kept = {name: each for name, each in subscriptions.targets.items() if name not in names}
    return attrs.evolve(subscriptions, targets=kept)


def without_programs(subscriptions: Subscriptions) -> Subscriptions:
    """Keep the targets for alerts that ask for no program; others are left to the workers."""
    kept = {
        each.name: each
        for each in subscriptions.alerted
        if not isinstance(each.means, ByCommand | ByListener)
    }
    return attrs.evolve(subscriptions, targets=kept, schedules={}, tasks={}, pings={})


@attrs.define(eq=False)
class Subscribers:
    """The subscriptions of this process; a reload replaces *current*: take it once a round."""

    current: Subscriptions = attrs.field(factory=Subscriptions)
