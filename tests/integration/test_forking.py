"""The process that forks for each call of a command survives whatever becomes of a call."""

import os
import selectors
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.integration.shell import clean_environment
from tests.services.forking import Forking

pytestmark = pytest.mark.integration

#: Seconds in which everything has happened, also on a busy machine.
SOON = 60.0

#: Calls a command with a timeout in seconds, and gives its status.
IncomingTask: TypeAlias = Callable[[str, float], int]


@pytest.fixture
def out() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe to which the commands write."""
    ours, theirs = os.pipe()
    yield ours, theirs
    os.close(ours)


@pytest.fixture
def call(tmp_path: Path, out: tuple[int, int]) -> Iterator[IncomingTask]:
    forking = Forking.start()
    calling = partial(
        forking.call,
        folder=tmp_path,
        environment=clean_environment(),
        streams=(out[1], out[1]),
    )
    yield lambda command, timeout: calling(command.split(), timeout=timeout)
    forking.end()


def ends(stream: int) -> bool:
    """Read to the end of a pipe: nobody who could write is left."""
    with selectors.DefaultSelector() as awaited:
        awaited.register(stream, selectors.EVENT_READ)
        while awaited.select(SOON):
            if not os.read(stream, 65_536):
                return True
    return False


@pytest.mark.parametrize("timeout", [0.000_001, 1.0])  # before it is told its number, and after
def test_a_command_that_takes_too_long_is_killed_and_keeps_nobody_from_later_ones(
    tmp_path: Path, call: IncomingTask, out: tuple[int, int], timeout: float
) -> None:
    (tmp_path / "jobs.toml").write_text('[tasks.one]\ncommand = ["true"]\n')
    assert call("--version", SOON) == 0

    with pytest.raises(TimeoutError):
        call("up --jobs jobs.toml", timeout)

    assert [call("--version", SOON) for _ in range(3)] == [0, 0, 0]
    os.close(out[1])
    assert ends(out[0])
