"""Finding the one whose values the database refuses, so that its neighbours go on at once.

Such a refusal is no outage: to repeat it changes nothing. So what failed together is tried again in
ever smaller parts, and what fails alone is answered by somebody who knows what becomes of it.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import attrs

from cronhare.application.logs import say
from cronhare.domain.texts.listing import listed
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

from ..dialect import InDoubt, Locked
from .bisection import (
    BatchResult,
    OnLocked,
    bisect,
    bisect_locked,
)
from .outage_guard import (
    OutageGuard,
    PresumedOutage,
)
from .suspects import Kind, Suspects

log = logging.getLogger(__name__)

Q = TypeVar("Q")
A = TypeVar("A")


@attrs.frozen
class RefusedAlone:
    """A question that was refused by itself."""

    asked: Any
    refusal: LedgerRefused


@attrs.frozen
class FailedAlone:
    """A question that was answered by itself with what looks like an outage."""

    asked: Any
    doubt: LedgerUnavailable


def bisect_batch(
    asked: Sequence[Q],
    ask: Callable[[Sequence[Q]], BatchResult[A]],
    *,
    alone: Callable[[Q, LedgerRefused | LedgerUnavailable], A],
    on_locked: OnLocked[Q, A],
) -> Sequence[A]:
    """Ask all at once, one transaction; after a refusal, each half by itself.

    *alone* answers for the one that is refused alone, *waiting* for what others hold. The answers
    come in the order of *asked*.

    Raises:
        LedgerUnavailable: nothing was written, for what looks like an outage.
    """
    doubting = OutageGuard(ask, len(asked))
    answers: list[A] = []
    for part in _parts(asked, bisect_locked(doubting, on_locked)):
        match part:
            case BatchResult():
                answers.extend(part.answers)
            case FailedAlone(doubt=doubt) if not doubting.written:
                raise doubt
            case FailedAlone():
                answers.append(alone(part.asked, part.doubt))
            case RefusedAlone():
                answers.append(alone(part.asked, part.refusal))
    return answers


def bisect_and_judge(
    asked: Sequence[Q],
    ask: Callable[[Sequence[Q]], BatchResult[A]],
    *,
    alone: Callable[[Q, LedgerRefused], A],
    suspects: Suspects,
    id_of: Callable[[Q], int],
    kinds: Mapping[int, Kind],
    on_locked: OnLocked[Q, A],
    unproven: Callable[[Q], A] | None = None,
    could_another: Callable[[Kind], bool] = lambda _: False,
) -> Sequence[A]:
    """Do as `bisect_batch` does, but set none apart for a rule that refuses all of a kind.

    *ask* notes in *kinds* what it is about to write of each id. What is refused while nothing of
    its kind is written is answered by *unproven*, unless *could_another* says of the kind that
    another change would be accepted; where there is no *unproven* it is told to wait, if anything
    was written. One in a minute is set apart nevertheless: see `Suspects.judge`.
    What needs something that others hold is told to wait by *waiting*; so is what was to be set
    apart. What looks like an outage, beside others that are written or could be, is put off
    likewise, and never set apart.

    Raises:
        LedgerUnavailable: it is, nothing was written, and there is no *unproven*; or it looks like
            an outage, and nothing was written. The others were answered.
    """
    doubting = OutageGuard(ask, len(asked))
    with doubting.telling():
        ask = bisect_locked(doubting, on_locked)
        ids = map(id_of, asked)
        found = _doubted(asked, ask, doubting, partial(_could, could_another, kinds, ids))
        refused = [id_of(one.asked) for one in found if isinstance(one, RefusedAlone)]
        guilty = _guilty(refused, doubting.written, kinds, suspects, could_another)
        put_off = unproven or on_locked.answer
        if unproven is None and doubting.written:
            unproven = on_locked.answer
        alone = partial(_alone_not_waiting, alone, on_locked)
        answers: list[A] = []
        outages: list[LedgerRefused] = []
        for one in found:
            match one:
                case BatchResult():
                    answers.extend(one.answers)
                case FailedAlone():
                    answers.append(put_off(one.asked))
                case RefusedAlone() if id_of(one.asked) in guilty:
                    answers.extend(_once_more(one.asked, ask, alone, on_locked))
                case RefusedAlone():
                    outages.append(one.refusal)
                    if unproven is not None:
                        answers.append(unproven(one.asked))
        if outages and unproven is None:
            text = f"{outages[0]}; of {len(refused)} such changes none is accepted"
            raise LedgerUnavailable(text, changed_nothing=True) from outages[0]
        if outages and suspects.is_to_tell("ledger.refused"):
            text = f"No change of this kind is accepted: {outages[0]}"
            told = f"{text}; of {len(refused)} {len(guilty) or 'none'} set apart, the others wait"
            say(log, logging.ERROR, "ledger.refused", told)
        _tell_doubts(found, id_of, suspects)
        return answers


def _parts(
    asked: Sequence[Q], ask: Callable[[Sequence[Q]], BatchResult[A]]
) -> Sequence[BatchResult[A] | RefusedAlone | FailedAlone]:
    def by_itself(one: Q, refusal: LedgerRefused | LedgerUnavailable) -> RefusedAlone | FailedAlone:
        if isinstance(refusal, LedgerRefused):
            return RefusedAlone(one, refusal)
        return FailedAlone(one, refusal)

    refusals: tuple[type[LedgerRefused | LedgerUnavailable], ...] = (LedgerRefused, InDoubt)
    return bisect(asked, ask, refusals, by_itself)


def _doubted(
    asked: Sequence[Q],
    ask: Callable[[Sequence[Q]], BatchResult[A]],
    doubting: OutageGuard[Q, A],
    could_another: Callable[[], bool],
) -> Sequence[BatchResult[A] | RefusedAlone | FailedAlone]:
    """Give the parts of what was asked; all of it is in doubt if another could be written.

    Raises:
        LedgerUnavailable: it looks like an outage, and nothing was written.
    """
    try:
        found = _parts(asked, ask)
        if not doubting.written:
            for one in found:
                if isinstance(one, FailedAlone):
                    raise one.doubt
    except (InDoubt, PresumedOutage) as doubt:
        if not could_another():
            raise
        return [FailedAlone(one, doubt) for one in asked]
    return found


def _could(another: Callable[[Kind], bool], kinds: Mapping[int, Kind], ids: Iterable[int]) -> bool:
    return any(map(another, {kinds.get(id_) for id_ in ids}))


def _tell_doubts(
    found: Sequence[BatchResult[A] | RefusedAlone | FailedAlone],
    id_of: Callable[[Q], int],
    suspects: Suspects,
) -> None:
    doubts = {id_of(one.asked): one.doubt for one in found if isinstance(one, FailedAlone)}
    if not doubts or not suspects.is_to_tell("ledger.in-doubt"):
        return
    which = listed([str(id_) for id_ in doubts])
    text = f"Put off, as others are accepted: execution {which}: {next(iter(doubts.values()))}"
    say(log, logging.ERROR, "ledger.in-doubt", text)


def _guilty(
    refused: Collection[int],
    written: Collection[int],
    kinds: Mapping[int, Kind],
    suspects: Suspects,
    could_another: Callable[[Kind], bool],
) -> Collection[int]:
    """Judge them among those of their kind."""
    of_refused = {id_: kinds.get(id_) for id_ in refused}
    of_written = {id_: kinds.get(id_) for id_ in written}
    alone = {*of_refused.values()} - {*of_written.values()}
    could = [kind for kind in alone if could_another(kind)]
    return suspects.judge(of_refused, accepted=of_written, could_another=could)


def _once_more(
    asked: Q,
    ask: Callable[[Sequence[Q]], BatchResult[A]],
    alone: Callable[[Q, LedgerRefused], A],
    on_locked: OnLocked[Q, A],
) -> Sequence[A]:
    """Ask once more before somebody is set apart: what has no name with us may have passed."""
    try:
        return ask([asked]).answers
    except LedgerRefused as refusal:
        return [alone(asked, refusal)]
    except (InDoubt, PresumedOutage):
        return [on_locked.answer(asked)]


def _alone_not_waiting(
    alone: Callable[[Q, LedgerRefused], A],
    on_locked: OnLocked[Q, A],
    asked: Q,
    refusal: LedgerRefused,
) -> A:
    """Answer for one that was refused; what others hold of it keeps its neighbours from nothing.

    Nor does what looks like an outage by then.
    """
    try:
        with on_locked.limited_wait():
            return alone(asked, refusal)
    except (Locked, InDoubt):
        return on_locked.answer(asked)
