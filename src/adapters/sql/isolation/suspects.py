"""Telling a row whose changes are refused from a rule that refuses the changes of all.

The row is quarantined; the rule is an outage. Only a neighbour can tell them apart: a row is guilty
if it is refused while another's change of the same kind is accepted.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from threading import Lock
from typing import Final

from ..cooldown import MOST

#: While nothing is accepted, one row is quarantined each time so many seconds have passed: a guilty
#: one would keep its worker from all others, which alone could tell.
PROBE_EVERY: Final = 60.0

#: For so many seconds it counts that others were accepted: a rule may go and come back.
PROVEN_FOR: Final = 60.0

#: The log tells of refusals once in so many seconds.
LOG_EVERY: Final = 60.0

#: What a rule can tell from other changes: which tables are written, and from which state to which.
#: An archive that takes nothing refuses all failures, and no success proves one of them guilty.
Kind = Hashable


class Suspects:
    """The rows whose changes were refused, by kind of change. For any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """*monotonic* counts seconds."""
        self._monotonic = monotonic
        self._logged_at: dict[str, float] = {}  # by action
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
        """Give the guilty of *refused*.

        *accepted* are other changes of the same moment; *could_another* names kinds of which one
        would be accepted. All that are refused of such a kind are guilty. Of any other kind a row
        is guilty that is refused for the third time, with others accepted after each of the first
        two; and one row every `PROBE_EVERY` seconds, at once if it is the only one that is refused:
        there may be no other for long.
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

    def is_to_log(self, action: str) -> bool:
        """Tell whether to log a line now: refused changes are asked for again each second.

        Each *action* counts by itself: they have different cures, and none may hide another.
        """
        now, before = self._monotonic(), self._logged_at.get(action)
        if before is not None and now - before < LOG_EVERY:
            return False
        self._logged_at[action] = now
        return True


class _OfOneKind:
    """The suspects of one kind of change."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._refused = set[int]()  # since others were last accepted
        self._once: dict[int, float] = {}  # refused, then others were accepted: at which time
        self._proven: dict[int, float] = {}  # the same a second time
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
        """Remember them, as far as there is room: an outage may refuse thousands in a minute."""
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
