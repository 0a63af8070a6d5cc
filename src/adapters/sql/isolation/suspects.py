"""Telling a row whose changes are refused from a rule that refuses the changes of all.

The one is set apart, the other is an outage. Only a neighbour can tell them apart: what is refused
while somebody else's change of the same kind is accepted is refused for its own sake.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from threading import Lock
from typing import Final

from ..cooldown import MOST

#: While nothing at all is accepted, one row is set apart so often, in seconds: what is refused for
#: its own sake would keep its worker from all others, who alone could tell.
PROBE_EVERY: Final = 60.0

#: For so many seconds it is remembered that others were accepted: a rule may go and come back.
PROVEN_FOR: Final = 60.0

#: So often the log tells of what is refused, in seconds.
TELL_EVERY: Final = 60.0

#: What a rule can tell from other changes: which tables are written, and from which state to which.
#: An archive that takes nothing refuses all failures, and no success proves one of them guilty.
Kind = Hashable


class Suspects:
    """What was refused of changes, and whether their neighbours were. For any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """*monotonic* counts seconds."""
        self._monotonic = monotonic
        self._told_at: dict[str, float] = {}  # by action
        self._lock = Lock()
        self._kinds = defaultdict[Kind, _OfOneKind](partial(_OfOneKind, monotonic))

    def __len__(self) -> int:
        """Count what is remembered."""
        return sum(map(len, self._kinds.values()))

    def judge(
        self,
        refused: Mapping[int, Kind],
        *,
        accepted: Mapping[int, Kind],
        could_another: Collection[Kind] = (),
    ) -> Collection[int]:
        """Give those of *refused* that are to be set apart.

        *accepted* are others of the same moment; *could_another* names the kinds of which one would
        be. Of a kind without either only those are guilty that were refused before, again after
        others were accepted, and now once more; and one in `PROBE_EVERY`. Where it is the only
        one, it is set apart at once: there may be nobody else for long.
        """
        guilty = set[int]()
        asked, passed = _by_kind(refused), _by_kind(accepted)
        with self._lock:
            for kind in {*asked, *passed}:
                found = self._kinds[kind].judge(
                    asked.get(kind, ()),
                    accepted=passed.get(kind, ()),
                    could_another=kind in could_another,
                    is_only_one=len(refused) == 1,
                )
                guilty.update(found)
        return guilty

    def is_to_tell(self, action: str) -> bool:
        """Tell whether a line is to be logged: whoever asks again does so each second.

        Each *action* has its own minute: they have different cures, and none hides another.
        """
        now, before = self._monotonic(), self._told_at.get(action)
        if before is not None and now - before < TELL_EVERY:
            return False
        self._told_at[action] = now
        return True


class _OfOneKind:
    """The suspects of one kind of change."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._refused = set[int]()  # since others were accepted
        self._once: dict[int, float] = {}  # refused before others were accepted, and since when
        self._proven: dict[int, float] = {}  # refused again after that, before others were
        self._probed_at: float | None = None

    def __len__(self) -> int:
        return len(self._refused) + len(self._once) + len(self._proven)

    def judge(
        self,
        refused: Collection[int],
        *,
        accepted: Collection[int],
        could_another: bool,
        is_only_one: bool,
    ) -> Collection[int]:
        self._forget_old()
        for id_ in accepted:
            self._acquit(id_)
        if accepted or could_another:
            self._note_accepted()
            for id_ in refused:
                self._acquit(id_)
            return refused
        guilty = {each for each in refused if each in self._proven}
        for id_ in guilty:
            self._acquit(id_)
        others = [each for each in refused if each not in guilty]
        self._suspect(others)
        if others and self._is_to_probe(is_only_one=is_only_one):
            guilty.add(others[0])
        return guilty

    def _suspect(self, refused: Collection[int]) -> None:
        """Remember them as far as there is room: an outage may refuse thousands in each minute.

        Once others are accepted, what is remembered only changes its place.
        """
        for id_ in refused:
            if len(self) >= MOST:
                return
            self._refused.add(id_)

    def _note_accepted(self) -> None:
        now = self._monotonic()
        for id_ in self._refused:
            (self._proven if id_ in self._once else self._once)[id_] = now
        self._refused.clear()
        self._probed_at = None

    def _acquit(self, id_: int) -> None:
        self._refused.discard(id_)
        self._once.pop(id_, None)
        self._proven.pop(id_, None)

    def _forget_old(self) -> None:
        oldest = self._monotonic() - PROVEN_FOR
        self._once = {id_: at for id_, at in self._once.items() if at > oldest}
        self._proven = {id_: at for id_, at in self._proven.items() if at > oldest}

    def _is_to_probe(self, *, is_only_one: bool) -> bool:
        now, before = self._monotonic(), self._probed_at
        if before is None:
            self._probed_at = now
            return is_only_one
        if now - before < PROBE_EVERY:
            return False
        self._probed_at = now
        return True


def _by_kind(changes: Mapping[int, Kind]) -> Mapping[Kind, Collection[int]]:
    found = defaultdict[Kind, list[int]](list)
    for id_, kind in changes.items():
        found[kind].append(id_)
    return found
