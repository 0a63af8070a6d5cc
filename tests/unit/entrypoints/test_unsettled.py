"""What a worker says of runs whose end it could not write down before it left."""

import pytest

from cronhare.entrypoints.processes.consuming import warn_of_unsettled
from tests.unit.application.deliveries import begin
from tests.unit.application.house import House


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if vars(record).get("action") == "shutdown.given-up"
    ]


async def test_runs_without_a_recorded_result_are_named_with_what_becomes_of_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House(holds=True)
    await begin(house)

    warn_of_unsettled(house.keeper)

    [line] = told(caplog)
    assert line.startswith(f"Without a recorded result: execution {house.only.id}. Once the lease")
