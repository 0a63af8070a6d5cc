"""The fifo beside a ledger's file, and what may be in its place."""

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhare.adapters.system.fifo_bell import FifoBell, FifoListener, beside, listen
from tests.unit.executions import NOON, execution

#: Seconds: whoever waits for so long hangs.
HANGS = 20.0


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    file = tmp_path / "cronhare.sqlite3"
    file.touch()
    return file


def listening(ledger: Path) -> FifoListener:
    found = listen(str(ledger))
    assert found is not None
    return found


def ring(ledger: Path) -> None:
    FifoBell(str(ledger)).ring([execution()], now=NOON)


def test_a_ring_ends_the_wait_even_if_it_came_before(ledger: Path) -> None:
    bell = listening(ledger)
    assert bell.wait(0) is False

    ring(ledger)
    ring(ledger)

    assert bell.wait(HANGS) is True
    assert bell.wait(0) is False


def test_it_is_its_owners_alone_and_goes_with_him(ledger: Path) -> None:
    bell = listening(ledger)

    assert stat.S_IMODE(beside(ledger).stat().st_mode) == 0o600
    bell.remove()
    bell.remove()

    assert list(ledger.parent.iterdir()) == [ledger]
    ring(ledger)


def test_one_that_a_kill_left_behind_serves_anew(ledger: Path) -> None:
    os.mkfifo(beside(ledger))
    ring(ledger)  # nobody listens: it hangs nowhere

    bell = listening(ledger)
    ring(ledger)

    assert bell.wait(HANGS) is True


@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.write_text("mine"),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(os.devnull),
    ],
)
def test_what_is_in_its_place_is_left_as_it_is_and_told(
    ledger: Path, put: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    path = beside(ledger)
    put(path)
    before = path.lstat()

    with caplog.at_level(logging.WARNING):
        assert listen(str(ledger)) is None
    ring(ledger)

    assert os.path.samestat(path.lstat(), before)
    assert path.lstat().st_size == before.st_size
    assert all(
        file.read_text() in {"", "mine"} for file in ledger.parent.iterdir() if file.is_file()
    )
    assert "What is run by hand begins up to 5 s late" in caplog.text
