"""A ledger that is not there yet, and what is to come into it: waited for, and not for ever."""

import pytest

from cronhare.application.administration.reading.lookup import NotFound
from cronhare.entrypoints.cli.commands.logs import MOST_WAITED, once_made
from cronhare.ports import LedgerUnmade


class Ledger:
    """Is made so many looks from now, and has the schedule so many later; None is never."""

    def __init__(self, made: int | None, found: int | None = 0) -> None:
        self.made, self.found, self.looks, self.clock = made, found, 0, 0.0

    def find(self) -> str:
        self.looks += 1
        if self.made is None or self.looks <= self.made:
            raise LedgerUnmade("there is no ledger")
        if self.found is None or self.looks <= self.made + self.found:
            raise NotFound("there is no schedule")
        return "found"

    def pause(self, seconds: float) -> None:
        self.clock += seconds

    def once_made(self) -> str:
        return once_made(self.find, pause=self.pause, monotonic=lambda: self.clock)


def test_what_is_made_and_filled_meanwhile_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert Ledger(made=3, found=2).once_made() == "found"

    assert capsys.readouterr().err == (
        "there is no ledger. `cronhare up` may be making it: that is waited for, up to 60 s; "
        "Ctrl-C ends that.\n"
    )


@pytest.mark.parametrize(
    ("ledger", "error", "waited"),
    [
        (Ledger(made=None), LedgerUnmade, MOST_WAITED),
        (Ledger(made=2, found=None), NotFound, MOST_WAITED),
        (Ledger(made=0, found=None), NotFound, 0),  # the ledger was there
    ],
)
def test_what_does_not_come_is_told_in_the_end(
    ledger: Ledger, error: type[Exception], waited: float
) -> None:
    with pytest.raises(error):
        ledger.once_made()

    assert abs(ledger.clock - waited) <= 1
