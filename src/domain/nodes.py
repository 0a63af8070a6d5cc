"""Nodes: the processes that own attempts. Their names, which of them are gone, and lease times."""

import re
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

import attrs

_NAME = re.compile(
    r"(?P<host>.+)-(?P<pid>[1-9]\d{0,9})-(?P<place>[0-9a-f]{8})(?P<nonce>[0-9a-f]{8})"
)

#: A task whose lease could not be renewed has ended so long after it was given up.
TIME_TO_END: Final = timedelta(seconds=5)

#: The longest time between two renewals of a lease; for a short lease it is a sixth.
LONGEST_RENEWAL, RENEWALS = timedelta(seconds=2), 6

#: The longest time between two readings of the ledger's clock; for a short lease it is a sixth.
LONGEST_MEASURE, MEASURES = timedelta(seconds=30), 6


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
        """The name under which it owns attempts."""
        return f"{self.host}-{self.pid}-{self.place}{self.nonce}"


#: A node reports itself so often; silent for `SILENT_AFTER`, it has ended or is cut off.
REPORT_EVERY: Final = timedelta(seconds=15)
SILENT_AFTER: Final = 3 * REPORT_EVERY

#: A report that is so old is removed when another node begins.
FORGOTTEN_AFTER: Final = timedelta(hours=1)


@attrs.frozen(kw_only=True)
class NodeReport:
    """What a process reports of itself at *seen_at*.

    *role* is `scheduler`, `worker`, or `up` for both in one. *running* counts its attempts, at most
    *concurrency*; both are None where it runs no tasks. *clock_offset* is how far its own clock is
    ahead of the ledger's.
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

    def is_silent(self, now: datetime) -> bool:
        """Whether it has not reported itself of late: it has ended, or is cut off."""
        return now - self.seen_at > SILENT_AFTER

    @property
    def schedules(self) -> bool:
        """Whether it claims what is due."""
        return self.role != "worker"

    @property
    def works(self) -> bool:
        """Whether it runs tasks, those of its queues; a scheduler only declares them."""
        return self.role != "scheduler"


def alive(nodes: Iterable[NodeReport], now: datetime) -> list[NodeReport]:
    """Pick the nodes that have reported themselves lately."""
    return [node for node in nodes if not node.is_silent(now)]


@attrs.frozen(kw_only=True)
class Departed:
    """Nodes that are *gone* for certain, or *suspected* unless they renew a lease."""

    gone: Collection[str]
    suspected: Collection[str]


def read_node(name: str) -> Node | None:
    """Parse a node's name; None if it is not ours, or of a release without nonces.

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


def departed(owners: Iterable[str], *, ourselves: Node, lives: Callable[[int], bool]) -> Departed:
    """Tell which owners of attempts are gone, from what one process can know.

    A PID of our own place is proof: no two processes have it at a time, and *lives* checks the
    others. A PID of another place proves nothing, even if the host has our name: it may be our
    predecessor in a container, or a neighbour. Only its silence tells them apart.
    """
    read = ((owner, read_node(owner)) for owner in owners)
    others = {owner: node for owner, node in read if node is not None and node != ourselves}
    gone = [
        owner
        for owner, node in others.items()
        if node.place == ourselves.place and (node.pid == ourselves.pid or not lives(node.pid))
    ]
    suspected = [
        owner
        for owner, node in others.items()
        if node.place != ourselves.place
        and (node.host, node.pid) == (ourselves.host, ourselves.pid)
    ]
    return Departed(gone=gone, suspected=suspected)


def renewed_every(lease: timedelta) -> timedelta:
    """Say how often an owner renews its leases.

    >>> renewed_every(timedelta(seconds=30)), renewed_every(timedelta(seconds=3))
    (datetime.timedelta(seconds=2), datetime.timedelta(microseconds=500000))
    """
    return min(LONGEST_RENEWAL, lease / RENEWALS)


def measured_every(lease: timedelta) -> timedelta:
    """Say how often a worker reads the ledger's clock.

    After that clock was set, leases are written by the old time until the next reading. Schedulers
    wait for one lease after such a leap: by then all leases have to be written anew.

    >>> measured_every(timedelta(seconds=30)), measured_every(timedelta(hours=1))
    (datetime.timedelta(seconds=5), datetime.timedelta(seconds=30))
    """
    return min(LONGEST_MEASURE, lease / MEASURES)


def given_up_after(lease: timedelta) -> timedelta:
    """Say when an owner ends a task whose lease it cannot renew, counted from the last renewal.

    >>> given_up_after(timedelta(seconds=30))
    datetime.timedelta(seconds=20)
    """
    return lease * 2 / 3


def silence(lease: timedelta) -> timedelta:
    """Say how long a suspected node may be silent: by then its tasks have ended.

    At most the lease, when others may take over anyway: one below 15 s leaves tasks less time to
    end than `TIME_TO_END`.

    >>> silence(timedelta(seconds=30))
    datetime.timedelta(seconds=25)
    """
    return min(given_up_after(lease) + TIME_TO_END, lease)
