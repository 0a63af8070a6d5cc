"""Finding the item of a batch whose values the database refuses, so that the others go on at once.

A refusal is no outage: repeating it changes nothing. So a batch that fails is bisected, and the
caller decides what becomes of an item that fails alone.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from cronhare.application.logs import say
from cronhare.domain.texts.listing import listed
from cronhare.ports.ledger import LedgerRefused, LedgerUnavailable

from ..dialect import InDoubt, Locked
from .bisection import BatchResult, OnLocked, bisect, bisect_locked
from .outage_guard import OutageGuard, PresumedOutage
from .suspects import Kind, Suspects

log = logging.getLogger(__name__)

Q = TypeVar("Q")
A = TypeVar("A")

_FAILURES: Final[tuple[type[LedgerRefused | LedgerUnavailable], ...]] = (LedgerRefused, InDoubt)


@attrs.frozen
class FailedAlone:
    """A single item that was refused, or that failed with what looks like an outage."""

    asked: Any
    error: LedgerRefused | LedgerUnavailable


def bisect_batch(
    asked: Sequence[Q],
    ask: Callable[[Sequence[Q]], BatchResult[A]],
    *,
    alone: Callable[[Q, LedgerRefused | LedgerUnavailable], A],
    on_locked: OnLocked[Q, A],
) -> Sequence[A]:
    """Ask for all in one transaction; after a refusal, for each half in one of its own.

    *alone* answers for an item that is refused alone, *on_locked* for one that is locked. The
    answers come in the order of *asked*.

    Raises:
        LedgerUnavailable: it looks like an outage, and nothing was written.
    """
    guard = OutageGuard(ask, len(asked))
    answers: list[A] = []
    for part in bisect(asked, bisect_locked(guard, on_locked), _FAILURES, FailedAlone):
        if isinstance(part, BatchResult):
            answers.extend(part.answers)
        elif isinstance(part.error, LedgerRefused) or guard.written:
            answers.append(alone(part.asked, part.error))
        else:
            raise part.error
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
    """Do as `bisect_batch` does, but blame no item for a rule that refuses all of its kind.

    *ask* notes in *kinds*, by id, which kind of change it is about to write. A refused item is
    guilty, and goes to *alone*, if another of its kind was written, or could be according to
    *could_another*; and one a minute in any case: see `Suspects.judge`. Other refused items go to
    *unproven*, or without it to *on_locked* if anything was written. *on_locked* answers for locked
    items, and for guilty ones that *alone* finds locked. Items that look like an outage while
    others are written, or could be, are never blamed: they go to *unproven*, or else *on_locked*.

    Raises:
        LedgerUnavailable: items were refused, nothing was written, and there is no *unproven*; or
            it looks like an outage, and nothing was written. The others were answered.
    """

    def could_any() -> bool:
        return any(map(could_another, {kinds.get(id_of(one)) for one in asked}))

    guard = OutageGuard(ask, len(asked))
    with guard.correcting_errors():
        ask = bisect_locked(guard, on_locked)
        parts = _parts(asked, ask, guard, could_any)
        failed = [part for part in parts if isinstance(part, FailedAlone)]
        refused = [id_of(one.asked) for one in failed if isinstance(one.error, LedgerRefused)]
        guilty = _guilty(refused, guard.written, kinds, suspects, could_another)
        put_off = unproven or on_locked.answer
        if unproven is None and guard.written:
            unproven = on_locked.answer
        answers: list[A] = []
        outages: list[LedgerRefused] = []
        for part in parts:
            if isinstance(part, BatchResult):
                answers.extend(part.answers)
            elif not isinstance(part.error, LedgerRefused):
                answers.append(put_off(part.asked))
            elif id_of(part.asked) in guilty:
                answers.extend(_condemn(part.asked, ask, alone, on_locked))
            else:
                outages.append(part.error)
                if unproven is not None:
                    answers.append(unproven(part.asked))
        if outages and unproven is None:
            text = f"{outages[0]}; of {len(refused)} such changes none is accepted"
            raise LedgerUnavailable(text, changed_nothing=True) from outages[0]
        if outages and suspects.is_to_log("ledger.refused"):
            text = f"No change of this kind is accepted: {outages[0]}"
            counts = f"of {len(refused)} {len(guilty) or 'none'} set apart, the others wait"
            say(log, logging.ERROR, "ledger.refused", f"{text}; {counts}")
        _log_doubts(failed, id_of, suspects)
        return answers


def _parts(
    asked: Sequence[Q],
    ask: Callable[[Sequence[Q]], BatchResult[A]],
    guard: OutageGuard[Q, A],
    could_any: Callable[[], bool],
) -> Sequence[BatchResult[A] | FailedAlone]:
    """Bisect; in what looks like an outage, all items have failed if another could be written.

    Raises:
        LedgerUnavailable: it looks like an outage, nothing was written, and nothing could be.
    """
    try:
        parts = bisect(asked, ask, _FAILURES, FailedAlone)
        if not guard.written:
            for part in parts:
                if isinstance(part, FailedAlone) and not isinstance(part.error, LedgerRefused):
                    raise part.error
    except (InDoubt, PresumedOutage) as doubt:
        if not could_any():
            raise
        return [FailedAlone(one, doubt) for one in asked]
    return parts


def _log_doubts(
    failed: Sequence[FailedAlone], id_of: Callable[[Any], int], suspects: Suspects
) -> None:
    doubts = {
        id_of(one.asked): one.error for one in failed if isinstance(one.error, LedgerUnavailable)
    }
    if not doubts or not suspects.is_to_log("ledger.in-doubt"):
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
    """Judge the refused ids, each among those of its kind."""
    of_refused = {id_: kinds.get(id_) for id_ in refused}
    of_written = {id_: kinds.get(id_) for id_ in written}
    alone = {*of_refused.values()} - {*of_written.values()}
    could = [kind for kind in alone if could_another(kind)]
    return suspects.judge(of_refused, accepted=of_written, could_another=could)


def _condemn(
    asked: Q,
    ask: Callable[[Sequence[Q]], BatchResult[A]],
    alone: Callable[[Q, LedgerRefused], A],
    on_locked: OnLocked[Q, A],
) -> Sequence[A]:
    """Ask for a guilty item once more, as a cause unknown to us may have passed; then blame it.

    If *alone* meets a lock, or what looks like an outage, the others keep their answers.
    """
    try:
        return ask([asked]).answers
    except LedgerRefused as refusal:
        try:
            with on_locked.budget.limited_wait():
                return [alone(asked, refusal)]
        except (Locked, InDoubt):
            return [on_locked.answer(asked)]
    except (InDoubt, PresumedOutage):
        return [on_locked.answer(asked)]
