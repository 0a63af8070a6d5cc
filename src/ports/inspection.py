"""What the servers and the ledger show of themselves: facts, of which nothing is judged here."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

from cronhare.domain.nodes import NodeReport, present, served
from cronhare.domain.texts.moments import say_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from cronhare.domain.retries.limits import Breaker, Budget
    from cronhare.domain.schedules.task import TaskRef
    from cronhare.domain.topology import Topology


class Severity(enum.StrEnum):
    """How much a finding matters, from nothing on."""

    OK = "ok"
    NOTE = "note"  # worth knowing; nothing is to be done
    WARNING = "warning"  # it works, but not as well as it should, or not for long
    ERROR = "error"  # it must be mended


#: So many names are listed; the rest is counted.
NAMES_TOLD = 5


class Cause(enum.Enum):
    """Why a server cannot be used."""

    ABSENT = "nobody answers"
    LOGIN = "the login is refused"
    PLACE = "the virtual host or database is refused"
    OTHER = "something else"


@attrs.frozen
class Unreachable:
    """A server that could not be asked; *said* is what was heard instead.

    *hint* is what its vendor's commands do about the cause.
    """

    cause: Cause
    said: str
    hint: str = ""


@attrs.frozen
class InMemory:
    """There is no server: it lives inside of the process that uses it."""


@attrs.frozen(kw_only=True)
class Link:
    """How we are connected. *tls* is the protocol, None in plain text; *local*: to this machine."""

    host: str
    local: bool
    tls: str | None
    verified: bool


@attrs.frozen
class Need:
    """A setting that must be, what happens without it, and how to have it."""

    setting: str
    holds: Callable[[str], bool]
    without: str
    cure: str
    severity: Severity = Severity.ERROR


@attrs.frozen(kw_only=True)
class Requirements:
    """What a kind of database must be. *lack* says what is missing before its *oldest* version.

    *transactions* is the statement that lets a table have them, where one may not.
    """

    oldest: tuple[int, ...]
    lack: str
    needs: Sequence[Need]
    transactions: str = ""


@attrs.frozen(kw_only=True)
class DatabaseFacts:
    """What a session of ours sees.

    *settings* are the database's own names and words. Without *requirements* it was never tried.
    *plain_tables* are tables of ours in a storage engine without transactions.
    """

    product: str
    version: str
    requirements: Requirements | None = None
    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    plain_tables: Sequence[str] = ()
    link: Link | None = None


@attrs.frozen(kw_only=True)
class BrokerGuide:
    """What an adapter knows of its kind of broker; the commands are whole, in backticks.

    Versions from *oldest* up to *first_untried* were tried. *lack* is what an older one cannot, and
    *without* the setting that needs it not. *busy* says where to look at one that does not answer,
    *alarm* how one with an alarm is mended. *purge* empties a queue, *delete* removes it.
    """

    product: str
    oldest: tuple[int, ...]
    first_untried: tuple[int, ...]
    lack: str
    without: str
    busy: str
    alarm: str
    list_bindings: str
    list_policies: str
    purge: Callable[[str], str]
    delete: Callable[[str], str]


class Kind(enum.StrEnum):
    """What can be declared."""

    EXCHANGE = "exchange"
    QUEUE = "queue"


class Fit(enum.Enum):
    """What is known of a thing that the topology describes."""

    FITS = "as declared"
    MISSING = "not there"
    DIFFERS = "there, with another argument"
    HIDDEN = "there, but its arguments are not shown to this user"


@attrs.frozen(kw_only=True)
class Difference:
    """The first argument in which a thing differs. None is: not set."""

    argument: str
    wanted: str | None
    found: str | None

    def __str__(self) -> str:
        return f"{self.argument} is {self.found or 'not set'}, not {self.wanted or 'unset'}"


@attrs.frozen(kw_only=True)
class Thing:
    """One exchange or queue. Exchanges have neither messages nor consumers."""

    kind: Kind
    name: str
    fit: Fit
    difference: Difference | None = None
    messages: int = 0
    consumers: int = 0


@attrs.frozen(kw_only=True)
class BrokerFacts:
    """What a broker shows to a client.

    *things* are the exchanges and queues of our topology. *alarm* is the broker's own word for
    why it takes no messages, such as `low on memory`. *answered* is false if it neither took the
    message that asked for that, nor said why not. *absent* are the nodes of several that cannot
    be used, each with the reason.
    """

    product: str
    version: str
    guide: BrokerGuide
    things: tuple[Thing, ...] = ()
    alarm: str | None = None
    answered: bool = True
    absent: tuple[str, ...] = ()
    link: Link | None = None


class LaneState(enum.Enum):
    """What a probe found."""

    OPEN = "open"  # the probe came through
    BUSY = "busy"  # messages wait there: a probe would have to wait behind them
    BROKEN = "broken"  # there is no way in, or the probe did not come out


@attrs.frozen
class LaneReport:
    """One lane, and what its probe found."""

    lane: int
    state: LaneState


@attrs.frozen
class Late:
    """A schedule whose run was to be claimed, or that was to be planned, *since* then."""

    name: str
    since: datetime


@attrs.frozen
class LastClaim:
    """The newest due instant that a scheduler took: when it did, and which one."""

    at: datetime
    node: str

    def __str__(self) -> str:
        return f"{self.node} at {say_moment(self.at)}"


@attrs.frozen(kw_only=True)
class Owner:
    """A node that owns *running* attempts; their last lease ends at *lease_until*."""

    name: str
    running: int
    lease_until: datetime | None = None

    def is_at_work(self, now: datetime) -> bool:
        return self.lease_until is not None and self.lease_until > now


#: A worker begins within a second; for what waits so long there is none.
OVERDUE_AFTER = timedelta(minutes=1)


@attrs.frozen(kw_only=True)
class Waiting:
    """Runs of one queue that might have begun more than `OVERDUE_AFTER` ago, and have not.

    The first of them might *since*; what waits for its own time, by jitter, a retry or a replay, is
    not among them. *sent* says that the broker has them. *running* counts the queue's runs that are
    under way.
    """

    queue: str
    runs: int
    since: datetime
    sent: bool = True
    running: int = 0


@attrs.frozen(kw_only=True)
class Quarantined:
    """Runs in the archive: those that are still quarantined, and all that were so *of_late*."""

    unresolved: int = 0
    of_late: int = 0


@attrs.frozen(kw_only=True)
class UntoldTarget:
    """A target that was not told of *events*, and has heard of none since *last_at*."""

    name: str
    source: str
    events: int
    last_at: datetime
    error: str | None = None


@attrs.frozen(kw_only=True)
class ScheduleFacts:
    """Rows of the users' table that are alike: one, or *count* of them.

    *name* is the first by name, *others* are those that follow, as far as they would be told.
    *task* is None if a row cannot be understood; see *problem*.
    """

    name: str
    others: tuple[str, ...] = ()
    count: int = 1
    task: TaskRef | None
    enabled: bool = True
    queue: str | None = None
    problem: str | None = None
    source: str | None = None
    task_name: str | None = None
    topic: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.others)


@attrs.frozen(kw_only=True)
class Activity:
    """What the rows show of the work, at *now*.

    *next_due* is the earliest of all plans. *overdue* are schedules that are due and could be
    claimed, *unplanned* those that are enabled and have no plan: the earliest first. *nodes* report
    themselves, *owners* run attempts. *waiting* are runs that do not begin; *queues* are those of
    all runs that have not ended. *failures* are those that nobody has resolved, *awaited* runs wait
    for a worker that has their task; *breakers* and *budgets* are of all tasks and queues that have
    one. *late_runs* wait for their turns, the last of them until *late_until*. *untold* are targets
    that were given up, *broken_rows* name rows of ours that cannot be read, each with its column.
    """

    now: datetime
    next_due: datetime | None = None
    overdue: Sequence[Late] = ()
    unplanned: Sequence[Late] = ()
    last_claim: LastClaim | None = None
    nodes: Sequence[NodeReport] = ()
    owners: Sequence[Owner] = ()
    waiting: Sequence[Waiting] = ()
    queues: Collection[str] = ()
    quarantined: Quarantined = attrs.field(factory=Quarantined)
    failures: int = 0
    awaited: int = 0
    breakers: Sequence[Breaker] = ()
    budgets: Sequence[Budget] = ()
    late_runs: int = 0
    late_until: datetime | None = None
    untold: Sequence[UntoldTarget] = ()
    broken_rows: Sequence[str] = ()

    @property
    def present(self) -> Sequence[NodeReport]:
        return present(self.nodes, self.now)

    @property
    def is_at_work(self) -> bool:
        return any(owner.is_at_work(self.now) for owner in self.owners)

    @property
    def served(self) -> Collection[str] | None:
        """The queues that workers report to serve; None if there may be others.

        So it is while no node reports itself, or one runs tasks without a report.
        """
        now, present = self.now, self.present
        names = {node.name for node in present}
        unknown = any(owner.is_at_work(now) and owner.name not in names for owner in self.owners)
        return None if not self.nodes or unknown else served(present, now)

    @property
    def named(self) -> Collection[str] | None:
        """The queues of those who are there, also of those who take nothing just now; or None."""
        if self.served is None or not self.present:
            return None
        return frozenset(queue for node in self.present for queue in node.queues)


@attrs.frozen
class SchemaFault:
    """The schema is not this program's: what is wrong, and what mends it."""

    what: str
    cure: str


@attrs.frozen(kw_only=True)
class LedgerFacts:
    """A ledger. *activity* and *schedules* are None where the schema does not let us look.

    *skew* is how far this node's own clock is ahead of the ledger's.
    """

    database: DatabaseFacts
    schema: str | SchemaFault
    skew: timedelta = timedelta(0)
    activity: Activity | None = None
    schedules: Sequence[ScheduleFacts] | None = None


BrokerAnswer: TypeAlias = BrokerFacts | InMemory | Unreachable
LedgerAnswer: TypeAlias = LedgerFacts | Unreachable
LaneAnswer: TypeAlias = Sequence[LaneReport] | InMemory | Unreachable


class BrokerInspectionPort(Protocol):
    """Looks at a broker. Changes nothing, and leaves no message where all is well."""

    def inspect(self, topology: Topology) -> BrokerAnswer:
        """Compare the broker with *topology*, in bounded time; an outage is an answer, too."""

    def probe(self) -> LaneAnswer:
        """Send one message through each empty delay lane, in bounded time."""


class LedgerInspectionPort(Protocol):
    """Looks at a ledger, and changes nothing: it makes no file and upgrades no schema."""

    def inspect(self) -> LedgerAnswer:
        """Describe the database and its rows, in bounded time; an outage is an answer, too."""
