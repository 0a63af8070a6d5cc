from collections.abc import Callable
from datetime import UTC, datetime

import attrs
import pytest

from cronhare.application.administration.reading.output import CutShort, Moved, follow
from cronhare.application.administration.reading.output import Written as Shown
from cronhare.domain.execution import Execution, State
from cronhare.domain.retries.retry import Complete
from cronhare.ports.attempts import Finish
from cronhare.ports.runner import Captured, Written
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import FAILURE, IN_30_S, LOSS, SECOND, SUCCESS, Ledger, memory_ledger


@pytest.fixture
def ledger() -> Ledger:
    return memory_ledger(FrozenClock(datetime(2026, 3, 2, 12, tzinfo=UTC)))


def captured(text: str) -> Captured:
    return Captured(head=text, bytes=len(text.encode()), lines=text.count("\n"))


def wrote(ledger: Ledger, execution: Execution, stdout: str, stderr: str = "") -> None:
    """Keep what an attempt has written so far."""
    ledger.clock.advance(SECOND)
    written = Written(
        execution_id=execution.id,
        attempt=execution.attempt,
        stdout=captured(stdout),
        stderr=captured(stderr),
    )
    ledger.attempts.keep_written([written], now=ledger.now, node="ant")


def followed(
    ledger: Ledger, execution: Execution, *meanwhile: Callable[[], object]
) -> list[object]:
    """Follow to the end; between two looks something happens."""
    steps = iter(meanwhile)
    told = list[object]()

    def pause(_seconds: float) -> None:
        next(steps)()

    for event in follow(ledger.records, execution.id, pause=pause):
        match event:
            case Moved(moved):
                told.append((moved.state, moved.attempt))
            case Shown(attempt=attempt, stream=stream, line=line):
                told.append((attempt, stream, line.text))
            case CutShort():
                told.append(event)
    assert next(steps, None) is None, "it ended early"
    return told


def test_each_line_is_told_once_and_the_end_ends_it(ledger: Ledger) -> None:
    execution = ledger.running()
    all_of_it = attrs.evolve(SUCCESS, stdout=captured("a\nb\nc"), stderr=captured("oops\n"))

    told = followed(
        ledger,
        execution,
        lambda: wrote(ledger, execution, "a\nb"),
        lambda: None,
        lambda: wrote(ledger, execution, "a\nb\n", "oops\n"),
        lambda: ledger.finish(execution, Complete(), all_of_it),
    )

    assert told == [
        (State.RUNNING, 1),
        (1, "stdout", "a"),
        (1, "stdout", "b"),
        (1, "stderr", "oops"),
        (1, "stdout", "c"),
        (State.SUCCEEDED, 1),
    ]


def test_the_next_attempt_is_followed_as_well(ledger: Ledger) -> None:
    execution = ledger.running()
    first, second = (attrs.evolve(end, stdout=captured("x\n")) for end in (FAILURE, SUCCESS))

    told = followed(
        ledger,
        execution,
        lambda: ledger.finish(execution, IN_30_S, first),
        lambda: ledger.started(ledger.seen(execution)),
        lambda: ledger.finish(ledger.seen(execution), Complete(), second),
    )

    assert told == [
        (State.RUNNING, 1),
        (1, "stdout", "x"),
        (State.RETRYING, 2),
        (State.RUNNING, 2),
        (2, "stdout", "x"),
        (State.SUCCEEDED, 2),
    ]


def test_of_a_lost_attempt_it_is_told_how_far_it_is_known(ledger: Ledger) -> None:
    execution = ledger.running()
    wrote(ledger, execution, "a\nhalf")
    known = ledger.now
    lost = Finish(execution=ledger.seen(execution), ran=LOSS, verdict=IN_30_S)

    told = followed(
        ledger,
        execution,
        lambda: ledger.attempts.give_up([lost], now=ledger.now),
        lambda: ledger.records.cancel(execution.id, now=ledger.now),
    )

    assert told == [
        (State.RUNNING, 1),
        (1, "stdout", "a"),
        (1, "stdout", "half"),
        CutShort(attempt=1, as_of=known),
        (State.RETRYING, 2),
        (State.CANCELLED, 2),
    ]
