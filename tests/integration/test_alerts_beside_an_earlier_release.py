"""A release that writes the beginning of a judgement as its end judges on beside this one."""

from pathlib import Path

from sqlalchemy import Engine, text

from cronhare.adapters.sql import SqlAlertStore, open_engine, upgrade
from cronhare.domain.lifecycle.alerts import Alert
from cronhare.domain.schedules.alert_rules import Rule
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import MINUTE, NOON

#: What 1.0 wrote and asked.
ENDS = "UPDATE Alert SET cleared_at = held_at WHERE rule = 'judged'"
HAS_ENDED = "SELECT cleared_at >= held_at FROM Alert WHERE rule = 'judged'"


def test_each_sees_that_the_other_has_ended(tmp_path: Path) -> None:
    engine, clock = open_engine(f"sqlite:///{tmp_path / 'ledger.db'}"), FrozenClock(NOON)
    upgrade(engine, NOON)
    store, alert = SqlAlertStore(engine, clock), Alert(rule=Rule.FAILED, message="", data={"a": 1})

    def begins() -> bool:
        return store.begin(now=clock.now(), every=MINUTE)

    assert begins()
    clock.advance(MINUTE)
    waits = begins()
    with engine.begin() as connection:
        connection.execute(text(ENDS))
    follows = begins()
    before = _asked(engine)
    clock.advance(MINUTE)
    store.keep([alert], now=clock.now() - MINUTE, ended_at=clock.now())
    after = _asked(engine)
    engine.dispose()

    assert (waits, follows) == (False, True)
    assert (before, after) == (False, True)


def _asked(engine: Engine) -> bool:
    with engine.connect() as connection:
        return bool(connection.scalar(text(HAS_ENDED)))
