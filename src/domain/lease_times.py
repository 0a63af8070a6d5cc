"""When a lease is renewed, given up and taken over, for a lease of any length."""

from datetime import timedelta
from typing import Final

#: A task whose lease could not be renewed has ended so long after it was given up.
TIME_TO_END: Final = timedelta(seconds=5)

#: The longest time between two renewals of a lease, and between two readings of the ledger's clock;
#: within a short lease there are six of each.
LONGEST_RENEWAL, LONGEST_MEASURE = timedelta(seconds=2), timedelta(seconds=30)
TIMES_A_LEASE = 6


def renewed_every(lease: timedelta) -> timedelta:
    """Say how often an owner renews its leases.

    >>> renewed_every(timedelta(seconds=30)), renewed_every(timedelta(seconds=3))
    (datetime.timedelta(seconds=2), datetime.timedelta(microseconds=500000))
    """
    return min(LONGEST_RENEWAL, lease / TIMES_A_LEASE)


def measured_every(lease: timedelta) -> timedelta:
    """Say how often a worker reads the ledger's clock.

    After that clock was set, leases are written by the old time until the next reading. Schedulers
    wait for one lease after such a leap: by then all leases have to be written anew.

    >>> measured_every(timedelta(seconds=30)), measured_every(timedelta(hours=1))
    (datetime.timedelta(seconds=5), datetime.timedelta(seconds=30))
    """
    return min(LONGEST_MEASURE, lease / TIMES_A_LEASE)


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
