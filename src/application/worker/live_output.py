"""Keeping what long attempts write before they end, so that people can read it."""

from collections.abc import Callable, Mapping, Sequence

from cronhare.ports.attempts import AttemptStorePort
from cronhare.ports.clock import ClockPort
from cronhare.ports.runner import TaskRunnerPort, Written

from .leases import LeaseKeeper

#: Seconds between two rounds. What ends before its second round costs nothing.
EVERY = 5.0
#: Bytes of output that a round writes; what waited longest comes first.
MOST_BYTES = 512 * 1024

#: Gives, for executions that run here, what they have written if it is more than so many bytes.
Reading = Callable[[Mapping[int, int]], Sequence[Written]]


class OutputKeeper:
    """Stores the output of the attempts that it has seen before, where there is more of it."""

    def __init__(
        self,
        *,
        attempts: AttemptStorePort,
        clock: ClockPort,
        node: str,
        keeper: LeaseKeeper,
        read: Reading,
    ) -> None:
        """*keeper* knows what runs here."""
        self._attempts = attempts
        self._clock = clock
        self._node = node
        self._keeper = keeper
        self._read = read
        # Bytes stored of each execution and attempt; what was stored last stands last.
        self._stored: dict[tuple[int, int], int] = {}

    def round(self) -> float:
        """Store what is new; answers when to come again.

        Raises:
            LedgerUnavailable: it is tried again with the next round.
        """
        seen = self._look()
        asked = {id_: stored for (id_, _), stored in seen.items()}
        now = self._clock.now()  # before it is read: what is shown is as old as we say, or younger
        if asked and (written := self._read(asked)):
            self._attempts.keep_written(written, now=now, node=self._node)
            for one in written:
                place = one.execution_id, one.attempt
                if self._stored.pop(place, None) is not None:
                    self._stored[place] = one.bytes
        return EVERY

    def _look(self) -> Mapping[tuple[int, int], int]:
        """Find what runs here; answer what of it ran in the last round as well."""
        running = {(id_, attempt) for id_, attempt, _ in self._keeper.ages()}
        seen = {place: stored for place, stored in self._stored.items() if place in running}
        self._stored = seen | dict.fromkeys(running - seen.keys(), 0)
        return seen


def read_new_output(runner: TaskRunnerPort, asked: Mapping[int, int]) -> list[Written]:
    """Read what attempts have written beyond what is *asked*, until it is enough for a round."""
    found: list[Written] = []
    room = MOST_BYTES
    for id_, stored in asked.items():
        if room <= 0:
            break
        if (one := runner.written(id_, beyond=stored)) is not None:
            found.append(one)
            room -= one.kept
    return found
