"""Who is let in, until when."""

from datetime import datetime, timedelta

import pytest

from cronhare.domain.access import LONGEST_SESSION, Scope
from cronhare.ports import LedgerUnavailable
from tests.actors import ADA
from tests.unit.application.house import House

SECOND = timedelta(seconds=1)
CHANCE, OTHER = b"\1" * 32, b"\2" * 32


class Door:
    """Tokens and sessions of a house."""

    def __init__(self) -> None:
        self.house = House()
        container = self.house.container
        self.access, self.desk = container.access(), container.token_desk()
        self.admission = container.admission()

    def token(self, *, lives: timedelta | None = None, chance: bytes = CHANCE) -> str:
        made = self.desk.create("ci", Scope.READ, lives=lives, chance=chance, actor=ADA)
        return made.secret

    def is_known(self, cookie: str) -> bool:
        return self.admission.by_session(cookie) is not None


def test_a_session_ends_with_the_day_or_with_its_token() -> None:
    door = Door()
    long = door.admission.sign_in(door.token(), chance=OTHER)
    assert long is not None

    door.house.clock.advance(LONGEST_SESSION - SECOND)
    before = door.is_known(long.secret)
    door.house.clock.advance(SECOND)

    assert (before, door.is_known(long.secret)) == (True, False)
    assert long.seconds == LONGEST_SESSION.total_seconds()


def test_a_session_lasts_no_longer_than_its_token() -> None:
    door = Door()
    begun = door.admission.sign_in(door.token(lives=SECOND), chance=OTHER)
    assert begun is not None

    assert (begun.seconds, door.is_known(begun.secret)) == (1, True)
    door.house.clock.advance(SECOND)
    assert not door.is_known(begun.secret)


def test_a_cookie_opens_nothing_as_a_token_nor_a_token_as_a_cookie() -> None:
    door = Door()
    secret = door.token()
    begun = door.admission.sign_in(secret, chance=OTHER)
    assert begun is not None

    assert door.admission.by_token(begun.secret) is None
    assert door.admission.by_session(secret) is None
    assert door.admission.sign_in(begun.secret, chance=OTHER) is None


def test_a_ledger_that_takes_no_writes_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door()
    secret = door.token()

    def used(digest: str, *, now: datetime) -> None:
        raise LedgerUnavailable(f"it only reads: {digest} {now}")

    monkeypatch.setattr(door.access, "used", used)

    assert door.admission.by_token(secret) is not None
