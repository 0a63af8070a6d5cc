"""What attempts write: kept as it comes, shown line by line, followed to the end."""

import asyncio
from collections.abc import Mapping, Sequence

import attrs
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.process.output import Capture
from cronhare.application.administration.reading.output import (
    MISSING,
    CutShort,
    Moved,
    NewLine,
    ShownStream,
    follow,
)
from cronhare.application.administration.reading.output import Written as Shown
from cronhare.application.worker.leases import MOST_BYTES, read_new_output
from cronhare.domain.execution import State
from cronhare.ports.attempts import Finish
from cronhare.ports.runner import Captured, Written
from tests.frozen_clock import FrozenClock
from tests.integration.invocations import shell
from tests.integration.ledgers import IN_30_S, LOSS, SECOND, memory_ledger
from tests.unit.application.deliveries import begin
from tests.unit.application.house import NOON, House


async def test_what_waited_longest_is_kept_first() -> None:
    """A round has room for so many bytes, whatever the letters."""
    text = "\N{RABBIT}" * (MOST_BYTES // 8 + 1)
    house, asked = House(holds=True, says=lambda _: text), list[Mapping[int, int]]()

    def read(those: Mapping[int, int]) -> Sequence[Written]:
        asked.append(those)
        return read_new_output(house.runner, those)

    outputs = house.container.output_keeper(keeper=house.keeper, read=read)
    await begin(house)
    running = []
    for id_ in (101, 102, 103):
        house.keeper.hold(msgspec.structs.replace(house.only, id=id_), since=0.0)
        others = attrs.evolve(shell("x"), execution_id=id_, attempt=1)
        running.append(asyncio.create_task(house.runner.run(others)))
    await house.settle()
    outputs.round()

    turns = []
    for _ in range(2):
        outputs.round()
        turns.append({one.execution_id for one in read(asked[-1])})
        text += "x"

    assert [len(turn) for turn in turns] == [2, 2]
    assert turns[0] | turns[1] == {house.only.id, 101, 102, 103}
    await house.runner.close()
    await asyncio.gather(*running)


# Following


def test_of_a_lost_attempt_it_is_told_how_far_it_is_known() -> None:
    ledger = memory_ledger(FrozenClock(NOON))
    run = ledger.running()
    text = Captured(head="a\nhalf", bytes=6, lines=1)
    ledger.clock.advance(SECOND)
    written = Written(execution_id=run.id, attempt=1, stdout=text, stderr=Captured())
    ledger.attempts.keep_written([written], now=ledger.now, node="ant")
    lost = Finish(execution=ledger.seen(run), ran=LOSS, verdict=IN_30_S)

    def pause(_: float) -> None:
        if ledger.seen(run).state is State.RUNNING:
            ledger.attempts.give_up([lost], now=ledger.now)
        else:
            ledger.records.cancel(run.id, now=ledger.now)

    told = list[object]()
    for event in follow(ledger.records, run.id, pause=pause):
        match event:
            case Moved(moved):
                told.append((moved.state, moved.attempt))
            case Shown(attempt=attempt, stream=stream, line=line):
                told.append((attempt, stream, line.text))
            case CutShort():
                told.append(event)

    assert told == [
        (State.RUNNING, 1),
        (1, "stdout", "a"),
        (1, "stdout", "half"),
        CutShort(attempt=1, as_of=ledger.now),
        (State.RETRYING, 2),
        (State.CANCELLED, 2),
    ]


# Lines that are new

PIECES = st.sampled_from([b"a", b"b\n", b"\n", "\N{EURO SIGN}".encode(), b"long", b"\xff\n"])


def shown(chunks: Sequence[bytes], *, kept: int = 8) -> list[NewLine]:
    """Show a stream after each chunk, and at its end."""
    capture, stream, lines = Capture(kept), ShownStream(), list[NewLine]()
    for chunk in chunks:
        capture.feed(chunk)
        lines += stream.new(capture.result(), is_over=False)
    return [*lines, *stream.new(capture.result(), is_over=True)]


def texts(chunks: Sequence[bytes], *, kept: int = 8) -> list[tuple[int, str, int]]:
    return [(line.number, line.text, line.left_out) for line in shown(chunks, kept=kept)]


def test_lines_that_came_faster_than_they_were_shown_are_counted() -> None:
    assert texts([b"1\n2\n", b"".join(b"%d\n" % n for n in range(3, 30))]) == [
        (1, "1", 0),
        (2, "2", 0),
        (3, "3", 0),
        (4, "4", 0),
        (27, f"{MISSING}7", 22),
        (28, "28", 0),
        (29, "29", 0),
    ]


@given(st.lists(st.lists(PIECES, max_size=20).map(b"".join), max_size=6))
def test_no_line_is_lost_in_silence_or_shown_twice_or_changed(chunks: list[bytes]) -> None:
    written = b"".join(chunks).decode(errors="replace").split("\n")

    lines = shown(chunks)

    before = 0
    for line in lines:
        assert line.number == before + 1 + line.left_out
        before = line.number
        if MISSING not in line.text:
            assert line.text == written[line.number - 1]
    assert before == len(written) - (not written[-1])
