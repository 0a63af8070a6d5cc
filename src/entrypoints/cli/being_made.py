"""What follows a run may be begun while `cronhare up` still makes the ledger, as `init` says it."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.domain.texts.printable import printable
from cronhare.ports import LedgerUnmade

if TYPE_CHECKING:
    from ..container import Container

Found = TypeVar("Found")

#: So long a ledger is waited for that somebody may be making, and what comes into it at first.
MOST_WAITED: Final = 60.0
_LOOK_EVERY: Final = 0.5


def once_made(
    open_ledger: Callable[[], "Container"],
    find: Callable[["Container"], Found],
    *,
    pause: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Found:
    """Open the ledger and *find* something in it; wait for both if there is none yet.

    Where the ledger is there from the first, nothing is waited for.

    Raises:
        LedgerUnmade: it was not made meanwhile.
        NotFound: it is not in there.
    """
    until = None
    while True:
        try:
            return find(open_ledger())
        except (LedgerUnmade, NotFound) as error:
            if until is None:
                if isinstance(error, NotFound):
                    raise
                until = monotonic() + MOST_WAITED
                _say_waits(error)
            elif monotonic() >= until:
                raise
        pause(_LOOK_EVERY)


def _say_waits(error: LedgerUnmade) -> None:
    waits = f"`cronhare up` may be making it: that is waited for, up to {MOST_WAITED:.0f} s"
    sys.stderr.write(f"{printable(str(error))}. {waits}; Ctrl-C ends that.\n")
    sys.stderr.flush()
