"""The outbox: what each target is to be told, when it is tried again, and what is told together."""

import enum
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, TypeAlias
from uuid import UUID

import attrs
import msgspec

from ..execution import Execution, State
from ..retries.policy import exponential
from ..texts.moments import say_moment
from ..texts.words import counted
from .events import Event, bounded
from .rules import AlertSeverity
from .targets import DIGEST, EventKind, type_of

#: Who has not heard of an event after so many tries, or so long, is told no more.
MOST_TRIES: Final = 8
EXPIRES_AFTER: Final = timedelta(hours=24)

#: Between two tries: 10 s, 30 s, 90 s … up to an hour; `wait_after` has the sum.
FIRST_WAIT: Final = timedelta(seconds=10)
LONGEST_WAIT: Final = timedelta(hours=1)
GROWTH: Final = 3

#: Bytes of an event: what a person wrote into a row may be longer, and is not sent.
LARGEST_EVENT: Final = 256 * 1024

#: How the key of a recovery begins that is expected; the bad end's follows.
_EXPECTED: Final = "expected:"

#: No kind of event that a target asks for: a schedule names the address of its pings.
PING: Final = "ping"


class OutboxState(enum.StrEnum):
    """What became of telling one target of one event."""

    EXPECTED = "expected"  # a recovery, once the schedule succeeds again
    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given-up"
    EXPIRED = "expired"


#: Who was to be told and was not, and is told no more.
UNTOLD: Final = frozenset({OutboxState.GIVEN_UP, OutboxState.EXPIRED})

#: A schedule's number, and a target.
Place: TypeAlias = tuple[int, str]


@attrs.frozen(kw_only=True)
class OutboxRow:
    """One event for one target, as a row of the outbox; *tries* counts those that have begun."""

    id: int = 0
    event_key: str
    event: str
    target: str
    source: str
    scheduler_id: int
    schedule_name: str
    execution_id: int | None
    occurred_at: datetime
    payload: str = attrs.field(repr=False)
    state: str = OutboxState.WAITING.value
    tries: int = 0
    next_try_at: datetime | None = None
    owner: str | None = None
    finished_at: datetime | None = None
    last_error: str | None = None

    @classmethod
    def of(cls, event: Event, target: str, *, source: str, now: datetime) -> "OutboxRow":
        return cls(
            event_key=event.id,
            event=str(event.kind),
            target=target,
            source=source,
            scheduler_id=event.scheduler_id,
            schedule_name=bounded(event.schedule),
            execution_id=event.execution_id,
            occurred_at=event.at,
            payload=event.document,
            next_try_at=now,
        )

    @classmethod
    def expecting(cls, failed: Event, target: str, *, source: str, now: datetime) -> "OutboxRow":
        event = attrs.evolve(failed, id=f"{_EXPECTED}{failed.id}", kind=EventKind.RECOVERED)
        row = cls.of(event, target, source=source, now=now)
        return attrs.evolve(row, state=OutboxState.EXPECTED.value, payload="")

    @property
    def place(self) -> Place:
        return self.scheduler_id, self.target


def expected_after(event_key: str) -> str:
    return event_key.removeprefix(_EXPECTED)


def without_repeats(
    wanted: Sequence[OutboxRow], *, once: Collection[str], known: Mapping[Place, str]
) -> Sequence[OutboxRow]:
    """Leave out bad ends that targets told *once* know of already: the schedule has not recovered.

    *known* are the keys of the events that such targets were told last, or will be; the recoveries
    that they expect get them. A quarantine is news to a target that knows of a failure alone.
    """
    last, left = dict(known), list[OutboxRow]()
    for row in sorted(wanted, key=lambda each: each.occurred_at):
        told = last.get(row.place, "")
        if row.state == OutboxState.EXPECTED:
            left.append(attrs.evolve(row, event_key=f"{_EXPECTED}{told}") if told else row)
        elif (
            row.target not in once
            or not told
            or (row.event != told.partition(":")[0] and row.event != EventKind.FAILED)
        ):
            left.append(row)
            if row.target in once:
                last[row.place] = row.event_key
    return left


def wait_after(tries: int, *, asked: timedelta | None = None) -> timedelta | None:
    """Say how long to wait after so many tries, all in vain; None if it is given up.

    *asked* is what the target asked for, which counts where it is longer.

    >>> [str(wait_after(tries)) for tries in (1, 2, 3, 7, 8)]
    ['0:00:10', '0:00:30', '0:01:30', '1:00:00', 'None']
    >>> waits = [wait_after(tries) or timedelta(0) for tries in range(1, MOST_TRIES)]
    >>> str(sum(waits, timedelta(0)))
    '2:00:40'
    """
    if tries >= MOST_TRIES:
        return None
    own = exponential(FIRST_WAIT, tries - 1, LONGEST_WAIT, multiplier=GROWTH)
    return own if asked is None else min(max(own, asked), LONGEST_WAIT)


def say_next_try(at: datetime, now: datetime) -> str:
    """Say when a target is tried again: it may have to wait for its turn, behind its others."""
    return f"next try at {say_moment(at)}" if at > now else "the next try is due"


# Many events of a kind

#: Within so long a target is told of `most` events of a kind, each by itself.
WINDOW: Final = timedelta(minutes=1)

#: Events that one message tells of, and those of them that it has in full.
MOST_TOGETHER: Final = 1_000
SHOWN: Final = 5

_SEVERITIES: Final = ("info", *reversed(AlertSeverity))


class Turn(enum.Enum):
    """What becomes of events of one kind that wait for a target."""

    EACH = "each by itself"
    TOGETHER = "all in one message"
    HOLD = "later, to come together"


def decide(waiting: int, *, lately: int, most: int) -> Turn:
    """Decide for *waiting* events, of which the target was told of *lately* within the `WINDOW`.

    A message about many counts for *most*, so that the next such one comes when that is over.
    """
    if lately + waiting <= most:
        return Turn.EACH
    return Turn.HOLD if lately else Turn.TOGETHER


def digest(rows: Sequence[OutboxRow]) -> OutboxRow:
    """Write one message about events of a kind, the earliest first; they have one target."""
    first, left = rows[0], LARGEST_EVENT // 2
    names = Counter(row.schedule_name for row in rows if row.schedule_name)
    kind = type_of(first.event)
    message = f"{counted(len(rows), 'event')} of {kind}"
    if names:
        most = ", ".join(f"{name} ({count})" for name, count in names.most_common(SHOWN))
        rest = len(names) - SHOWN
        message += f": {most}" + (f", and {counted(rest, 'other')}" if rest > 0 else "")
    alerts = (read_event(row).an_alert for row in rows)
    said = {
        "severity": max((each.severity or "info" for each in alerts), key=_SEVERITIES.index),
        "title": f"{len(rows)} times {first.event}",
        "message": message,
        "task": None,
    }
    data = {
        "event": kind,
        "count": len(rows),
        "schedules": dict(names.most_common(SHOWN)),
        "first": [
            msgspec.Raw(row.payload.encode())
            for row in rows[:SHOWN]
            if (left := left - len(row.payload)) >= 0
        ],
        "alert": said,
    }
    event = Event(
        id=f"{DIGEST}:{first.event}:{first.id}:{len(rows)}",
        kind=DIGEST,
        schedule="",
        scheduler_id=0,
        at=min(row.occurred_at for row in rows),
        data=data,
    )
    row = OutboxRow.of(event, first.target, source=first.source, now=event.at)
    return attrs.evolve(row, tries=first.tries)


class AlertData(msgspec.Struct, frozen=True):
    """What an event says of how bad it is."""

    title: str = ""
    message: str = ""
    severity: str = ""


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What an event says of its run."""

    test: bool = False
    attempt: int = 0
    due_at: str = ""
    alert: AlertData = AlertData()


class EventData(msgspec.Struct, frozen=True, rename="camel"):
    """What people are told of an event's data; each kind has its own part."""

    alert: AlertData = AlertData()
    rule: str = ""
    last_error: str = ""
    reason: str = ""
    text: str = ""
    attempts: int = 0
    metadata: Metadata = Metadata()

    @property
    def an_alert(self) -> AlertData:
        return self.alert if self.alert.severity else self.metadata.alert


class _Document(msgspec.Struct, frozen=True):
    data: EventData


def read_event(row: OutboxRow) -> EventData:
    return msgspec.json.decode(row.payload, type=_Document).data


# Pings of a run's start and end

#: Ends of which a service is told; what was cancelled or skipped did not fail.
ENDS: Final = frozenset({State.SUCCEEDED, State.FAILED, State.QUARANTINED})

#: Of what ended longer ago nobody is told: a schedule whose ping is new has a past.
LOOKS_BACK: Final = timedelta(minutes=10)

#: A start that is told later may come after the end.
START_WITHIN: Final = timedelta(seconds=60)

#: Tries of an end's ping, within a minute: by then the next run may have been told of.
PING_TRIES: Final = 3

#: Characters of what a run wrote last; and the statuses that such services know.
LONGEST_TAIL: Final = 10_000
_STATUSES: Final = range(1, 256)

_ESCAPES: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@attrs.frozen(kw_only=True)
class RunEnd:
    """How the last attempt of a run ended, on which node, and what it wrote last."""

    exit_code: int | None = None
    stderr: str = attrs.field(default="", repr=False)
    stdout: str = attrs.field(default="", repr=False)
    node: str | None = None


class Ping(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is asked: *path* goes behind the address; *run* names the run in it."""

    path: str
    run: str
    body: str = ""
    is_start: bool = False


class _PingDocument(msgspec.Struct):
    data: Ping


def read_ping(row: OutboxRow) -> Ping:
    return msgspec.json.decode(row.payload, type=_PingDocument).data


def ping_of(
    run: Execution, end: RunEnd | None, target: str, *, source: str, now: datetime
) -> OutboxRow:
    """Tell of a run that has ended, as it ended; or without an *end* that it has begun."""
    name = f"{run.id}:{round(run.executed_at.timestamp() * 1_000)}"
    its = str(UUID(bytes=sha256(name.encode()).digest()[:16], version=4))
    if end is None:
        key, ping = f"start:{name}", Ping(path="/start", run=its, is_start=True)
    else:
        # One that was replayed ends anew, after more attempts.
        key = f"end:{name}:{run.attempt}:{run.version}"
        has_status = run.state is State.FAILED and end.exit_code in _STATUSES
        path = f"/{end.exit_code}" if has_status else "/fail"
        words = end.stderr or end.stdout or run.last_error or ""
        body = _ESCAPES.sub("\N{REPLACEMENT CHARACTER}", words[-LONGEST_TAIL:])
        ping = Ping(path="" if run.state is State.SUCCEEDED else path, run=its, body=body)
    event = Event(
        id=f"{PING}:{key}",
        kind=PING,
        schedule=run.schedule_name,
        scheduler_id=run.scheduler_id,
        execution_id=run.id,
        at=now,
        data=msgspec.to_builtins(ping),
    )
    return OutboxRow.of(event, target, source=source, now=now)
