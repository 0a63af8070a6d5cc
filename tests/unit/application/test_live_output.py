import asyncio
from collections.abc import Mapping, Sequence

import attrs
import msgspec
import pytest

from cronhare.application.worker.leases import MOST_BYTES, OutputKeeper, read_new_output
from cronhare.ports.records import Output
from cronhare.ports.runner import Written
from tests.integration.invocations import shell
from tests.unit.application.deliveries import SECOND, begin
from tests.unit.application.house import House


@attrs.define
class Room:
    """A house whose tasks write what is in `text`, and what keeps it."""

    text: str = "begun"
    asked: list[Mapping[int, int]] = attrs.field(factory=list[Mapping[int, int]])
    house: House = attrs.field(init=False)
    outputs: OutputKeeper = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.house = House(holds=True, says=lambda _: self.text)
        self.outputs = self.house.container.output_keeper(keeper=self.house.keeper, read=self.read)

    def read(self, asked: Mapping[int, int]) -> Sequence[Written]:
        self.asked.append(asked)
        return read_new_output(self.house.runner, asked)

    @property
    def kept(self) -> Sequence[Output]:
        return self.house.records.output(self.house.only.id)


async def test_what_a_long_attempt_writes_is_kept_as_it_comes() -> None:
    room = Room()
    await begin(room.house)
    room.outputs.round()

    room.outputs.round()
    first, at = room.kept, room.house.now
    room.text = "begun, half done"
    room.house.clock.advance(SECOND)
    room.outputs.round()

    assert [(one.attempt, one.stdout.head, one.as_of) for one in first] == [(1, "begun", at)]
    [now] = room.kept
    assert (now.stdout.head, now.as_of) == ("begun, half done", at + SECOND)


@pytest.mark.parametrize("letter", ["x", "\N{EURO SIGN}", "\N{RABBIT}"])
async def test_what_waited_longest_is_kept_first(letter: str) -> None:
    """A round has room for so many bytes, whatever the letters."""
    room = Room(text=letter * (MOST_BYTES // 2 // len(letter.encode()) + 1))
    house = room.house
    await begin(house)
    running = []
    for id_ in (101, 102, 103):
        house.keeper.hold(msgspec.structs.replace(house.only, id=id_), since=0.0)
        others = attrs.evolve(shell("x"), execution_id=id_, attempt=1)
        running.append(asyncio.create_task(house.runner.run(others)))
    await house.settle()
    room.outputs.round()

    turns = []
    for _ in range(2):
        room.outputs.round()
        turns.append({one.execution_id for one in room.read(room.asked[-1])})
        room.text += "x"

    assert [len(turn) for turn in turns] == [2, 2]
    assert turns[0] | turns[1] == {house.only.id, 101, 102, 103}
    await house.runner.close()
    await asyncio.gather(*running)
