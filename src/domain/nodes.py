"""Nodes: the processes that own attempts; their reports, leases and clocks, and who is gone."""

import enum
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

import attrs

_NAME = re.compile(
    r"(?P<host>.+)-(?P<pid>[1-9]\d{0,9})-(?P<place>[0-9a-f]{8})(?P<nonce>[0-9a-f]{8})"
)


@attrs.frozen(kw_only=True)
class Node:
    """One process, from its start to its end.

    *place* names the PID namespace of *pid*: no two that are alive share it. *nonce* is random,
    made at the start. Both are eight hex digits.
    """

    host: str
    pid: int
    place: str
    nonce: str

    def __str__(self) -> str:
        return f"{self.host}-{self.pid}-{self.place}{self.nonce}"


#: A node reports itself so often, and after `SILENT_AFTER` without a report people are told so: it
#: has ended, is cut off, or stood still for a while.
REPORT_EVERY: Final = timedelta(seconds=3)
SILENT_AFTER: Final = 3 * REPORT_EVERY

#: Where something is decided from its silence, it is longer than a node or a database stands still.
PRESUMED_DEAD_AFTER: Final = timedelta(seconds=45)

#: A worker that has been cut off from its broker for so long serves nothing: shorter is a restart.
DISCONNECTED_AFTER: Final = timedelta(minutes=2)

#: A report that is so old, or of a time so far ahead, is removed when another node begins.
FORGOTTEN_AFTER: Final = timedelta(hours=1)

#: So many reports are looked at; the others are counted.
MOST_REPORTS: Final = 1_000


#: Between the sources, and digests, of a jobs file and an app.
BETWEEN_FILES: Final = ", "


def is_a_scheduler(role: str) -> bool:
    return role != "worker"


def is_presumed_dead(
    seen_at: datetime, now: datetime, *, watched_since: datetime | None = None
) -> bool:
    """Whether who was seen last at *seen_at* counts as ended.

    Before *watched_since* the ledger may have been away, and nobody could report himself.
    """
    if watched_since is not None:
        seen_at = max(seen_at, watched_since)
    return abs(now - seen_at) > PRESUMED_DEAD_AFTER


class NodeState(enum.StrEnum):
    """How a node stands."""

    AT_WORK = "at work"
    DRAINING = "draining"  # it was asked to take no more, or still runs what it had taken
    DRAINED = "drained"  # it runs nothing, and waits to be taken back
    DISCONNECTED = "disconnected"  # its broker is away, or it is cut off from it
    SILENT = "silent"


@attrs.frozen(kw_only=True)
class NodeReport:
    """What a process reports of itself at *seen_at*.

    *role* is `scheduler`, `worker`, or `up` for both in one. *running* counts its attempts, at most
    *concurrency*; *consuming* says whether it takes more. All three are None where it runs no
    tasks. *clock_offset* is how far its own clock is ahead of the ledger's. At *drain_asked_at*
    somebody asked it to take no more; that stays in the ledger until it is taken back. The node's
    own word for it, when it first heard so, counts where the ledger has forgotten the node. It was
    connected to its queues at *consumed_at*, or began then. A worker
    names in *queues* those alone that its broker lets it consume. *source* and *digest* are the
    `FileVersion` of its jobs file, or app; of both, one after the other.
    """

    name: str
    role: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    queues: tuple[str, ...] = ()
    concurrency: int | None = None
    running: int | None = None
    clock_offset: timedelta = timedelta(0)
    consuming: bool | None = None
    drain_asked_at: datetime | None = None
    consumed_at: datetime | None = None
    source: str | None = None
    digest: str | None = None

    @property
    def files(self) -> Mapping[str, str]:
        digests, source = (self.digest or "").split(BETWEEN_FILES), self.source or ""
        sources = [source] if len(digests) == 1 else source.split(BETWEEN_FILES)
        return dict(zip(sources, digests, strict=False))

    def is_silent(self, now: datetime) -> bool:
        """Whether it has not reported itself of late: it was killed, or is cut off.

        A time that is as far ahead tells nothing of now, and would do so for ever.
        """
        return abs(now - self.seen_at) > SILENT_AFTER

    @property
    def schedules(self) -> bool:
        return is_a_scheduler(self.role)

    @property
    def works(self) -> bool:
        """Whether it takes tasks of its queues: a scheduler only declares them."""
        return self.runs_tasks and self.consuming is not False

    def is_disconnected(self, now: datetime, *, watched_since: datetime | None = None) -> bool:
        """Whether it would take tasks, and has long been cut off from what brings them.

        Before *watched_since* the ledger may have been away, and it could not say so.
        """
        at = self.consumed_at
        if at is None or not self.works:
            return False
        return max(at, watched_since or at) < now - DISCONNECTED_AFTER

    @property
    def runs_tasks(self) -> bool:
        return self.role != "scheduler"

    def state(self, now: datetime) -> "NodeState":
        if self.is_silent(now):
            return NodeState.SILENT
        if self.consuming is False:
            return NodeState.DRAINING if self.running else NodeState.DRAINED
        if self.drain_asked_at is not None and self.runs_tasks:
            return NodeState.DRAINING
        return NodeState.DISCONNECTED if self.is_disconnected(now) else NodeState.AT_WORK


@attrs.frozen(kw_only=True)
class NodeReports:
    """Reports that were read, of *known* ones in all; those of *broken* rows are left out."""

    reports: Sequence[NodeReport]
    known: int
    broken: int = 0

    @property
    def unread(self) -> int:
        return max(0, self.known - self.broken - len(self.reports))


def alive(nodes: Iterable[NodeReport], now: datetime) -> list[NodeReport]:
    return [node for node in nodes if not node.is_silent(now)]


def present(
    nodes: Iterable[NodeReport], now: datetime, *, watched_since: datetime | None = None
) -> list[NodeReport]:
    return [
        node
        for node in nodes
        if not is_presumed_dead(node.seen_at, now, watched_since=watched_since)
    ]


def serving(
    nodes: Iterable[NodeReport], now: datetime, *, watched_since: datetime | None = None
) -> list[NodeReport]:
    """Pick the workers not taken for ended that take tasks and are connected to a broker."""
    return [
        node
        for node in present(nodes, now, watched_since=watched_since)
        if node.works and not node.is_disconnected(now, watched_since=watched_since)
    ]


def served(
    nodes: Iterable[NodeReport], now: datetime, *, watched_since: datetime | None = None
) -> frozenset[str]:
    at_work = serving(nodes, now, watched_since=watched_since)
    return frozenset(queue for node in at_work for queue in node.queues)


@attrs.frozen(kw_only=True)
class Departed:
    """Nodes that are *gone* for certain, or *suspected* unless they renew a lease."""

    gone: Collection[str]
    suspected: Collection[str]


def read_node(name: str) -> Node | None:
    """Parse a node's name; None if it is not one.

    >>> node = read_node("web-1-4711-0a1b2c3d4e5f6071")
    >>> node.host, node.pid, str(node)
    ('web-1', 4711, 'web-1-4711-0a1b2c3d4e5f6071')
    >>> read_node("web-1-4711")
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return Node(
        host=found["host"], pid=int(found["pid"]), place=found["place"], nonce=found["nonce"]
    )


@lru_cache(maxsize=1024)
def container_id(name: str) -> str:
    """Give a node's host and PID, the `container_id` of the original system.

    >>> container_id("web-1-4711-0a1b2c3d4e5f6071")
    'web-1-4711'
    """
    node = read_node(name)
    return name if node is None else f"{node.host}-{node.pid}"


def is_gone(node: Node, *, ourselves: Node, lives: Callable[[int], bool]) -> bool | None:
    """Tell whether another node is gone, from what one process can know; None if it cannot.

    *lives* tells whether a PID of our own place is in use.
    """
    if node.place != ourselves.place:
        return None
    return node.pid == ourselves.pid or not lives(node.pid)


def departed(owners: Iterable[str], *, ourselves: Node, lives: Callable[[int], bool]) -> Departed:
    """Tell which owners of attempts are gone, from what one process can know.

    A PID of our own place is proof: no two processes have it at a time, and *lives* checks the
    others. A PID of another place proves nothing, even if the host has our name: it may be our
    predecessor in a container, or a neighbour. Only its silence tells them apart.
    """
    gone, suspected = list[str](), list[str]()
    for owner in owners:
        node = read_node(owner)
        if node is None or node == ourselves:
            continue
        if is_gone(node, ourselves=ourselves, lives=lives):
            gone.append(owner)
        elif node.place != ourselves.place and container_id(owner) == container_id(str(ourselves)):
            suspected.append(owner)
    return Departed(gone=gone, suspected=suspected)


#: A task whose lease could not be renewed has ended so long after it was given up.
TIME_TO_END: Final = timedelta(seconds=5)

#: The longest time between two renewals of a lease, and between two readings of the ledger's clock;
#: within a short lease there are six of each.
LONGEST_RENEWAL, LONGEST_MEASURE = timedelta(seconds=2), timedelta(seconds=30)
TIMES_A_LEASE = 6


def renewed_every(lease: timedelta) -> timedelta:
    return min(LONGEST_RENEWAL, lease / TIMES_A_LEASE)


def measured_every(lease: timedelta) -> timedelta:
    """Say how often a worker reads the ledger's clock.

    After that clock was set, leases are written by the old time until the next reading. Schedulers
    wait for one lease after such a leap: by then all leases have to be written anew.
    """
    return min(LONGEST_MEASURE, lease / TIMES_A_LEASE)


def given_up_after(lease: timedelta) -> timedelta:
    """Say when an owner ends a task whose lease it cannot renew, counted from the last renewal."""
    return lease * 2 / 3


def silence(lease: timedelta) -> timedelta:
    """Say how long a suspected node may be silent: by then its tasks have ended.

    At most the lease, when others may take over anyway: one below 15 s leaves tasks less time to
    end than `TIME_TO_END`.
    """
    return min(given_up_after(lease) + TIME_TO_END, lease)


#: What the nodes' ideas of the ledger's time may differ by (ADR 12).
CLOCKS_DIFFER: Final = timedelta(seconds=5)


def was_ahead(noted_at: datetime, now: datetime) -> bool:
    """Tell whether something was noted by a clock that has been set back since."""
    return noted_at - now > CLOCKS_DIFFER


def has_passed(long: timedelta, since: datetime | None, now: datetime) -> bool:
    """Tell whether something was so long ago, or never, or in a time to come.

    >>> now, minute = datetime(2026, 3, 2, 12, 0), timedelta(minutes=1)
    >>> [has_passed(minute, now - each * minute, now) for each in (-1, 0, 0.5, 1)]
    [True, False, False, True]
    """
    return since is None or not timedelta(0) <= now - since < long


# How many seconds each step of a shutdown may take (ADR 16). FAREWELL < DISCONNECTING < CLOSING: a
# broker that does not answer is hung up on before the adapter gives its closing up, and that before
# the process does. Who is cut off by another leaves connections behind, for whose answers the
# process would wait at its very end. PAUSING, INTERRUPTING and CLOSING follow each other, within
# ENDING.

#: The broker, to send nothing more.
PAUSING: Final = 1.5

#: Interrupted tasks, to end (5 from TERM to KILL) and to be recorded.
INTERRUPTING: Final = 8.5

#: The broker's answer to the farewell of one connection; then it is hung up on.
FAREWELL: Final = 1.5

#: All connections of one adapter to the broker, which are closed beside each other.
DISCONNECTING: Final = 2.0

#: All that a process closes, beside each other: connections, loops, what ends tasks.
CLOSING: Final = 3.0

#: A worker's shutdown beside its grace. A service manager may wait 15.
ENDING: Final = 14.0
#: How far a node's clock may be off unsaid, here and in a worker's log.
WORRYING_SKEW = timedelta(seconds=1)
