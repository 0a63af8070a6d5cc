"""What schedules, tasks, classes and defaults say of events: who is told, and what alerts."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import attrs
from msgspec import Meta

from cronhare.domain.addresses.web import WebAddress
from cronhare.domain.events.rules import (
    AlertConditions,
    DeadlineAsWritten,
    FactorAsWritten,
    SizeAsWritten,
)
from cronhare.domain.events.targets import (
    MOST_NAMED,
    NO_NOTIFICATION_SETTINGS,
    PING_TIMEOUT,
    ByCommand,
    ByPing,
    EventKind,
    NotificationSettings,
    Subscriptions,
    Target,
    by_number,
)
from cronhare.domain.reading import Fault
from cronhare.domain.schedules.task import Task
from cronhare.domain.texts.printable import echo
from cronhare.domain.texts.words import hint

from .fields import Command, SomeTime

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
        """When a run alerts."""
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
        """Read what counts where nothing else is said."""
        self.usual = self._settings_of("defaults", table, None, faults)

    def read_class(self, name: str, table: EventsTable, faults: list[Fault]) -> None:
        """Read what a class of tasks says."""
        own = self._settings_of(f"classes.{name}", table, None, faults)
        self.classes[name] = _over(own, self.usual)

    def read_task(self, task: Task, table: EventsTable, faults: list[Fault]) -> None:
        """Read what a task says, and whom it reminds."""
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
        """Read what a schedule says; without a task none hands the defaults on to it."""
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
        """Give what was read; *task_of* names the tasks of schedules."""
        return Subscriptions(
            source=source,
            pings=self.pings,
            targets=self.targets,
            schedules=self.schedules,
            tasks=self.tasks,
            task_of=task_of,
            refs=by_number(tasks.values()),
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
            notify=names,
            on_failure=command,
            late_after=table.late_after,
            conditions=conditions,
        )

    def _unknown(self, field: str, names: Iterable[str]) -> Iterator[Fault]:
        for name in names:
            if name not in self.targets:
                there = hint(name, list(self.targets)) if self.targets else "there are none"
                yield Fault(field, f"there is no notify.{echo(name)}; {there}")


def _over(near: NotificationSettings, far: NotificationSettings) -> NotificationSettings:
    """Let what is said nearer go before."""
    return NotificationSettings(
        notify=far.notify if near.notify is None else near.notify,
        on_failure=near.on_failure or far.on_failure,
        late_after=near.late_after or far.late_after,
        conditions=near.conditions.over(far.conditions),
    )
