"""Rows of alerts that a person spoilt in SQLite, whose columns take anything: others go on."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event, text

from cronhare.adapters.sql import open_engine, upgrade
from cronhare.adapters.sql.inspection.ledger_inspection import SqlInspection
from cronhare.application.administration.views.alerts import AlertView
from cronhare.domain.diagnosis.ledger import LedgerFacts
from cronhare.domain.diagnosis.targets import judge_alerts
from cronhare.domain.lifecycle.alert_list import AlertFilter, AlertPlace
from cronhare.domain.lifecycle.alerts import Alert, RaisedAlert
from cronhare.domain.lifecycle.events import LARGEST_PARAMS
from cronhare.domain.schedules.alert_rules import Rule
from cronhare.entrypoints.json_text import as_json
from tests.frozen_clock import FrozenClock
from tests.integration.ledgers import NOON, Ledger, sql_ledger

DAY = timedelta(days=1)
FAILED, CRITICAL, NODE = (
    Alert(rule=rule, message="6", data={"value": 6})
    for rule in (Rule.FAILED, Rule.CRITICAL, Rule.NODE)
)
SPOILT = text(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many) "
    "INSERT INTO Alert (rule, raised_at, held_at, subject, scheduler_id, data) "
    "SELECT 'queue:' || i, '2099-01-01 00:00:00.000000', '2099-01-01 00:00:00.000000', '', 0, '{}' "
    "FROM n"
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger'}")
    upgrade(engine, NOON - DAY)
    yield engine
    engine.dispose()


@pytest.fixture
def ledger(engine: Engine) -> Ledger:
    return sql_ledger(FrozenClock(NOON), engine)


def spoil(engine: Engine, column: str, value: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE Alert SET {column} = {value} WHERE rule = 'failed'"))


@pytest.mark.parametrize("key", ["x'00ff'", "CAST('failed' AS BLOB)", "CAST('failed:7' AS BLOB)"])
def test_a_key_of_bytes_keeps_no_other_alert_from_being_judged_and_told(
    engine: Engine, ledger: Ledger, key: str
) -> None:
    ledger.alerts.keep([FAILED], now=NOON, ended_at=NOON)
    spoil(engine, "rule", key)

    changes = ledger.alerts.keep([FAILED, CRITICAL], now=NOON + DAY, ended_at=NOON + DAY)
    listed, _ = ledger.alerts.page(AlertFilter(cleared=True), after=None, limit=None)
    later = ledger.alerts.keep([], now=NOON + 2 * DAY, ended_at=NOON + 2 * DAY)

    assert {each.rule for each in changes.raised} == {FAILED.rule, CRITICAL.rule}
    assert changes.cleared == []
    assert {each.rule for each in listed} == {FAILED.rule, CRITICAL.rule}
    assert {each.rule for each in later.cleared} == {FAILED.rule, CRITICAL.rule}
    assert ledger.alerts.raised() == []
    assert len(ledger.alerts.cleared()) == 2


@pytest.mark.parametrize(
    ("column", "value"), [("data", "'{'"), ("rule", "'odd'"), ("raised_at", "7")]
)
def test_what_cannot_be_listed_is_not_counted(
    engine: Engine, ledger: Ledger, column: str, value: str
) -> None:
    ledger.alerts.keep([FAILED, CRITICAL, NODE], now=NOON, ended_at=NOON)
    spoil(engine, column, value)

    listed, _ = ledger.alerts.page(AlertFilter(), after=None, limit=9)

    assert len(listed) == ledger.overview.count_alerts(most=9) == 2


def test_a_spoilt_row_does_not_end_the_pages(engine: Engine, ledger: Ledger) -> None:
    ledger.alerts.keep([FAILED, CRITICAL, NODE], now=NOON, ended_at=NOON)
    spoil(engine, "data", "'{'")
    every, ended = ledger.alerts.page(AlertFilter(), after=None, limit=3)

    first, goes_on = ledger.alerts.page(AlertFilter(), after=None, limit=1)
    rest, again = ledger.alerts.page(AlertFilter(), after=AlertPlace.of(first[-1]), limit=1)

    assert (ended, goes_on, again) == (False, True, False)
    assert {each.rule for each in every} == {CRITICAL.rule, NODE.rule}
    assert [*first, *rest] == [*every]


def test_thousands_of_spoilt_rows_cost_a_page_few_statements(
    engine: Engine, ledger: Ledger
) -> None:
    """Each of them sorts all: with one for every few rows the cost would be their square."""
    ledger.alerts.keep([FAILED], now=NOON, ended_at=NOON)
    with engine.begin() as connection:
        connection.execute(SPOILT, {"many": 30_000})
    asked = list[str]()

    @event.listens_for(engine, "before_cursor_execute")
    def note(_c: Connection, _u: object, said: str, *_: object) -> None:
        asked.append(said)

    found, goes_on = ledger.alerts.page(AlertFilter(), after=None, limit=1)
    event.remove(engine, "before_cursor_execute", note)

    assert ([each.rule for each in found], goes_on) == ([FAILED.rule], False)
    assert len([said for said in asked if "ORDER BY" in said]) <= 6


def test_no_more_is_shown_of_one_than_fits() -> None:
    long = "x" * 10**6
    said = dict.fromkeys(("message", "title", "runbook"), long)
    many = {f"more{number}": "x" * 100 for number in range(10_000)}
    data = {"alert": said, "value": 6, "executionId": 7, **many, long: 8}
    spoilt = RaisedAlert(
        key=f"failed:{long}", raised_at=NOON, data=data, subject=long, source=long, scheduler_id=1
    )

    shown = AlertView.of(spoilt, (), {})

    assert len(as_json(shown, encode=str)) < 50_000
    assert (shown.value, shown.data["value"], shown.data["executionId"]) == (6, 6, 7)
    assert "characters left out" in shown.message
    assert shown.message.startswith("xxx")


def test_what_fits_is_measured_as_it_is_sent() -> None:
    data = {"long": "\x7f" * 6_000, "short": "\x7f" * 5_000, "value": 6}

    shown = AlertView.of(RaisedAlert(key="failed", raised_at=NOON, data=data), (), {})

    assert shown.data == {"short": data["short"], "value": 6}


def test_all_is_shown_of_one_as_it_is_raised() -> None:
    text = "x" * 2_000
    said = {"message": text, "runbook": text}
    task = {"params_scheduler": "x" * LARGEST_PARAMS}
    data = {"value": 6, "alert": {**said, "task": task}}

    shown = AlertView.of(RaisedAlert(key="failed", raised_at=NOON, data=data), (), {})

    assert (shown.message, shown.runbook, shown.data) == (text, text, data)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("data", "'no json'", "failed"),
        ("data", "'{\"value\": NaN}'", "failed"),
        ("raised_at", "'soon'", "failed"),
        ("cleared_at", "'soon'", "failed"),
        ("rule", "'strange'", "strange"),
        ("rule", "x'00ff'", "b'"),
    ],
)
def test_the_doctor_counts_and_names_those_that_cannot_be_read(
    engine: Engine, ledger: Ledger, column: str, value: str, told: str
) -> None:
    ledger.alerts.begin(now=NOON, every=DAY)
    ledger.alerts.keep([FAILED, CRITICAL], now=NOON, ended_at=NOON)
    inspection = SqlInspection(lambda: engine, ledger.clock)

    sound = inspection.inspect()
    spoil(engine, column, value)
    spoilt = inspection.inspect()

    assert isinstance(sound, LedgerFacts)
    assert isinstance(spoilt, LedgerFacts)
    assert sound.activity is not None
    assert spoilt.activity is not None
    assert [*judge_alerts(sound.activity.broken_alerts)] == []
    [finding] = judge_alerts(spoilt.activity.broken_alerts)
    assert finding.what.startswith("1 row of Alert cannot be read, and nobody is told: ")
    assert told in finding.what


def test_one_about_bytes_is_told_as_it_is(engine: Engine, ledger: Ledger) -> None:
    ledger.alerts.keep([FAILED], now=NOON, ended_at=NOON)
    spoil(engine, "subject", "x'00ff'")

    [listed] = ledger.alerts.raised()

    assert listed.subject == str(b"\x00\xff")
