from collections.abc import Sequence

import attrs
import pytest

from cronhare.adapters.memory.broker import MemoryInspection
from cronhare.application.scheduling.chores import probe_lanes
from cronhare.domain.topology import LANES, Topology
from cronhare.ports.inspection import (
    BrokerInspectionPort,
    Cause,
    InMemory,
    LaneReport,
    LaneState,
    Unreachable,
)
from tests.unit.application.conftest import Lines

OPEN = [LaneReport(lane, LaneState.OPEN) for lane in range(LANES)]


@attrs.frozen
class Lanes:
    """Shows the lanes that it was given."""

    lanes: Sequence[LaneReport] | Unreachable

    def inspect(self, topology: Topology) -> InMemory:  # noqa: ARG002 - the port's
        return InMemory()

    def probe(self) -> Sequence[LaneReport] | Unreachable:
        return self.lanes


def test_a_broken_lane_is_said_loudly_and_says_who_has_the_cure(lines: Lines) -> None:
    probe_lanes(Lanes([*OPEN[:7], LaneReport(7, LaneState.BROKEN), *OPEN[8:]]))

    [line] = lines()
    assert line.startswith("[ERROR] What enters cron_scheduler_retry.07 does not come out")
    assert "`cronhare doctor --probe`" in line


@pytest.mark.parametrize(
    "broker",
    [
        Lanes(OPEN),
        Lanes([*OPEN[:7], LaneReport(7, LaneState.BUSY), *OPEN[8:]]),
        Lanes(Unreachable(Cause.ABSENT, "nobody answers")),
        MemoryInspection(),
    ],
    ids=["open", "busy", "away", "memory"],
)
def test_whatever_needs_nobody_is_no_alarm(broker: BrokerInspectionPort, lines: Lines) -> None:
    probe_lanes(broker)

    assert all(line.startswith("[DEBUG]") for line in lines())
