"""Rows of the outbox, of alerts, and of who holds what came again, spoilt by hand.

The site is a ledger in a file on a frozen clock. After each entry an innocent's failure is told to
its target, an alert is judged, and a message that came again is noted.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from itertools import count, product

import attrs

from cronhare.adapters.sql import open_engine, upgrade
from cronhare.adapters.sql.schema.tables import metadata
from cronhare.application.administration.alerts import AlertDesk
from cronhare.application.administration.outbox import Outbox
from cronhare.application.events.alerting import AlertWatch
from cronhare.application.events.announcing import Announcer
from cronhare.application.events.judging import LedgerJudge
from cronhare.application.events.subscribers import Subscribers
from cronhare.domain.lifecycle import events
from cronhare.domain.lifecycle.alert_list import AlertFilter
from cronhare.domain.lifecycle.alert_policy import AlertPolicy
from cronhare.domain.lifecycle.alerts import EVERY, Alert
from cronhare.domain.lifecycle.events import OutboxRow, OutboxState
from cronhare.domain.retries.redeliveries import Holder
from cronhare.domain.schedules.alert_rules import Rule
from cronhare.domain.schedules.notify import (
    ByCommand,
    EventKind,
    NotificationSettings,
    Subscriptions,
    Target,
)
from cronhare.domain.schedules.task import TaskRef
from cronhare.entrypoints.json_text import as_json
from cronhare.ports.ledger import LedgerRefused
from cronhare.ports.records import Retention
from tests.frozen_clock import FrozenClock
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
from tests.fuzz.rows import VALUES
from tests.integration.ledgers import NOON, Ledger, sql_ledger

SOURCE, LEASE = "shop", timedelta(seconds=90)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
HOLDER = Holder(node="bee", host="here", boot="now")

#: The tables, each with the condition that finds the spoilt rows.
TABLES = {
    "EventDelivery": "target = 'spoilt'",
    "Alert": "rule <> ''",
    "RedeliveryHold": "message = 'spoilt'",
}

#: Keys of one alert alone: that of all rows is refused, as they are told apart by it.
ALERT_KEYS = {
    "a BLOB": "x'00ff'",
    "a BLOB of a rule": "CAST('failed' AS BLOB)",
    "a BLOB of a rule and more": "CAST('failed:7' AS BLOB)",
    "no UTF-8": "CAST(x'ff2a' AS TEXT)",
    "a number": "7",
}

#: The short form tries every so many-th cell.
SHORT = 37

_TARGETS = {
    name: Target(name=name, means=ByCommand(command=("true",)), events=frozenset(EventKind))
    for name in ("innocent", "spoilt")
}
SUBSCRIPTIONS = Subscriptions(
    source=SOURCE,
    targets=_TARGETS,
    tasks={"report": NotificationSettings(notify=("innocent",))},
    refs={TaskRef("report", 25): "report"},
)


@attrs.define(eq=False)
class EventDesk:
    """A process that tells of events, and somebody who writes into its ledger."""

    path: str
    ledger: Ledger
    announcer: Announcer
    outbox: Outbox
    alerts: AlertDesk
    numbers: Iterator[int] = attrs.field(factory=lambda: count(1))

    def spoil(self, table: str, column: str, value: str, *, which: str = "") -> Answer:
        """Write a row of each table, spoil a cell, and let everything read it."""
        self._victims()
        try:
            where = which or TABLES[table]
            self.shell(f'UPDATE "{table}" SET {column} = {value} WHERE {where}')
        except sqlite3.Error:
            return Answer.REFUSED  # the database itself did
        told = self._look()
        return Answer.REFUSED if told else Answer.HANDLED

    def shell(self, *statements: str) -> None:
        """Write as another program does: without our driver."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    def innocent(self) -> None:
        """See `Site.innocent`."""
        self.shell('DELETE FROM "EventDelivery"', 'DELETE FROM "Alert"')
        self.shell('DELETE FROM "RedeliveryHold"', 'DELETE FROM "FailedTask"')
        self.ledger.failed(f"innocent-{next(self.numbers)}")
        if not self._tell_innocent():
            raise Mishandled("nobody is told of the innocent's failure")

    def _tell_innocent(self) -> bool:
        self.announcer.round()
        return any(
            self.ledger.events.settle(row, OutboxState.DELIVERED, now=self.ledger.now)
            for row in self._take("innocent")
        )

    def _take(self, target: str) -> Sequence[OutboxRow]:
        store, now = self.ledger.events, self.ledger.now
        return store.take(target, source=SOURCE, now=now, lease=LEASE, node="ant", limit=9)

    def _victims(self) -> None:
        ledger = self.ledger
        ended = ledger.failed(f"spoilt-{next(self.numbers)}")
        event = events.bad_end(ended)
        row = partial(OutboxRow.of, target="spoilt", source=SOURCE, now=ledger.now)
        hope = OutboxRow.expecting(event, "spoilt", source=SOURCE, now=ledger.now)
        ledger.events.add([row(event), hope])
        ledger.alerts.begin(now=ledger.now, every=EVERY)
        ledger.alerts.keep(
            [Alert(rule=Rule.FAILED, message="6", data={"a": 1})],
            now=ledger.now,
            ended_at=ledger.now,
        )
        ledger.redeliveries.hold("spoilt", holder=HOLDER, now=ledger.now)

    def _look(self) -> bool:
        """Let everything that reads these rows read them; tell whether one was called broken."""
        problems = []
        for passing in (timedelta(0), 2 * MINUTE, DAY, 31 * DAY):
            self.ledger.clock.advance(passing)
            rows = [*self.ledger.events.rows(limit=99)]
            problems += [row.problem for row in rows]
            as_json(self.outbox.events(states=(), schedule=None, limit=99), encode=str)
            as_json(self.alerts.alerts(AlertFilter(cleared=True)).alerts, encode=str)
            for row in self._take("spoilt"):
                problems.append(row.problem)
                later = self.ledger.now + MINUTE
                self.ledger.events.settle(
                    row, OutboxState.WAITING, now=self.ledger.now, next_try_at=later, error="no"
                )
            self.ledger.failed(f"beside-{next(self.numbers)}")
            if not self._tell_innocent():
                raise Mishandled("nobody is told of the failure beside it")
            self._take_message_again()
            self.ledger.records.clean_up(now=self.ledger.now, retention=Retention())
        return any(problems)

    def _take_message_again(self) -> None:
        try:
            ant = Holder(node="ant", host="here", boot="now")
            self.ledger.redeliveries.hold("spoilt", holder=ant, now=self.ledger.now)
            self.ledger.redeliveries.let_go("spoilt", node="ant")
        except LedgerRefused:
            return


@contextmanager
def desk(place: Place) -> Iterator[EventDesk]:
    """Open a desk on an empty ledger."""
    path, clock = place.folder / "ledger.db", FrozenClock(NOON)
    engine = open_engine(f"sqlite:///{path}")
    upgrade(engine, NOON)
    ledger = sql_ledger(clock, engine)
    policy = AlertPolicy()
    watch = AlertWatch(
        alerts=ledger.alerts,
        events=ledger.events,
        judge=LedgerJudge(alerts=ledger.alerts, nodes=ledger.nodes, policy=policy, now=clock.now),
        now=clock.now,
    )
    announcer = Announcer(
        store=ledger.events, alerts=watch, subscribers=Subscribers(SUBSCRIPTIONS), clock=clock
    )
    alerts = AlertDesk(
        alerts=ledger.alerts,
        events=ledger.events,
        subscribers=Subscribers(SUBSCRIPTIONS),
        now=clock.now,
        names=ledger.asked,
    )
    try:
        outbox = Outbox(ledger.events, ledger.asked)
        yield EventDesk(str(path), ledger, announcer, outbox, alerts)
    finally:
        engine.dispose()


def _spoiling(table: str, column: str, value: str, site: EventDesk) -> Answer:
    return site.spoil(table, column, value)


def _spoiling_key(value: str, site: EventDesk) -> Answer:
    return site.spoil("Alert", "rule", value, which=f"rule = '{Rule.FAILED}'")


def _entries() -> Iterator[Entry[EventDesk]]:
    cells = ((table, column.name) for table in TABLES for column in metadata.tables[table].c)
    for number, ((table, column), (named, value)) in enumerate(product(cells, VALUES.items())):
        spoiling = partial(_spoiling, table, column, value)
        yield Entry(f"{table}.{column}: {named}", spoiling, short=number % SHORT == 0)
    for named, value in ALERT_KEYS.items():
        yield Entry(f"the key of an alert: {named}", partial(_spoiling_key, value), short=True)


BOUNDARY = Boundary(name="event rows", at=desk, entries=tuple(_entries()))
