"""Storing the output of long attempts before they end, so that people can read it."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from cronhare.ports.attempts import AttemptStorePort
from cronhare.ports.runner import TaskRunnerPort, Written
from cronhare.ports.system import ClockPort

from .leases import LeaseKeeper

#: Seconds between two rounds. An attempt that ends before its second round costs nothing.
EVERY = 2.0
#: Bytes of output that a round writes; the attempt that waited longest comes first.
MOST_BYTES = 256 * 1024

#: Reads what executions that run here have written and reported, of each if beyond that mark.
Reading = Callable[[Mapping[int, int]], Sequence[Written]]


@attrs.define(kw_only=True, eq=False)
class OutputKeeper:
    """Stores new output of the attempts that ran in the round before, too.

    *keeper* knows what runs here.
    """

    _attempts: AttemptStorePort
    _clock: ClockPort
    _node: str
    _keeper: LeaseKeeper
    _read: Reading
    _stored: dict[tuple[int, int], int] = attrs.field(
        init=False, factory=dict[tuple[int, int], int]
    )

    def round(self) -> float:
        """Store what is new; answers how many seconds to rest.

        Raises:
            LedgerUnavailable: the next round tries again.
        """
        seen = self._seen_before()
        asked = {id_: stored for (id_, _), stored in seen.items()}
        now = self._clock.now()  # before the read: the output is no older than this
        if asked and (written := self._read(asked)):
            self._attempts.keep_written(written, now=now, node=self._node)
            for one in written:
                place = one.execution_id, one.attempt
                if self._stored.pop(place, None) is not None:
                    self._stored[place] = one.mark
        return EVERY

    def _seen_before(self) -> Mapping[tuple[int, int], int]:
        """Find what runs here; answers what of it ran in the last round as well."""
        over = self._keeper.ended  # its end has all that it wrote
        running = {(id_, attempt) for id_, attempt, _ in self._keeper.ages() if id_ not in over}
        seen = {place: stored for place, stored in self._stored.items() if place in running}
        self._stored = seen | dict.fromkeys(running - seen.keys(), 0)
        return seen


def read_new_output(runner: TaskRunnerPort, stored: Mapping[int, int]) -> list[Written]:
    """Read what attempts wrote and reported beyond the marks that are *stored*: `MOST_BYTES`."""
    found: list[Written] = []
    room = MOST_BYTES
    for id_, known in stored.items():
        if room <= 0:
            break
        if (one := runner.written(id_, beyond=known)) is not None:
            found.append(one)
            room -= one.kept
    return found
