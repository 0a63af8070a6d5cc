"""What a service is told of a run's end."""

import msgspec
import pytest

from cronhare.domain.events.outbox import RunEnd, ping_of
from cronhare.domain.execution import State
from tests.unit.executions import NOON, execution


@pytest.mark.parametrize(
    ("state", "exit_code", "path"),
    [
        (State.SUCCEEDED, 0, ""),
        (State.FAILED, 1, "/1"),
        (State.FAILED, 255, "/255"),
        (State.FAILED, 0, "/fail"),  # services take /0 for success
        (State.FAILED, 256, "/fail"),
        (State.FAILED, -9, "/fail"),
        (State.FAILED, None, "/fail"),
        (State.QUARANTINED, 1, "/fail"),
    ],
)
def test_what_failed_is_never_told_as_good(state: State, exit_code: int | None, path: str) -> None:
    row = ping_of(execution(state), RunEnd(exit_code=exit_code), "hc", source="shop", now=NOON)

    assert msgspec.json.decode(row.payload)["data"]["path"] == path


@pytest.mark.parametrize(
    ("end", "body"),
    [
        (RunEnd(stderr="no space", stdout="begun"), "no space"),
        (RunEnd(stdout="begun"), "begun"),
        (RunEnd(), "exit code 1"),
    ],
)
def test_a_service_is_told_the_errors_else_the_output_else_the_reason(
    end: RunEnd, body: str
) -> None:
    failed = execution(State.FAILED, last_error="exit code 1")

    row = ping_of(failed, end, "hc", source="shop", now=NOON)

    assert msgspec.json.decode(row.payload)["data"]["body"] == body
