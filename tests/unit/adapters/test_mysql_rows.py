"""Many rows as one JSON parameter."""

import json

import pytest
from sqlalchemy import bindparam, update
from sqlalchemy.dialects import mysql

from cronhare.adapters.sql.dialects.batches import parameters_of, rows_of
from cronhare.adapters.sql.dialects.mysql import dialect as mysql_dialect
from cronhare.adapters.sql.dialects.mysql.dialect import ROWS
from cronhare.adapters.sql.schema.tables import executions
from cronhare.adapters.sql.schema.types import UtcDateTime
from tests.integration.ledgers import NOON


def test_rows_are_written_into_as_few_documents_as_their_size_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mysql_dialect, "LARGEST_DOCUMENT", 20)
    rows: list[list[object]] = [[1, "ab"], [2, None], [3, "x" * 50], [4, "c"], [5, 'd"']]

    asked = ROWS.parameters(rows_of(("id", "text"), rows))
    written = [json.loads(parameters["rows"]) for parameters in asked]

    assert written == [rows[:2], [rows[2]], rows[3:]]


def test_an_update_of_one_row_becomes_one_of_many() -> None:
    statement = (
        update(executions)
        .where(executions.c.id == bindparam("told_id"), executions.c.state == "claimed")
        .values(
            owner=bindparam("owner"),
            check_at=bindparam("check", type_=UtcDateTime),
            missed=executions.c.missed + bindparam("more"),
        )
    )

    joined = ROWS.joined(statement, ("check", "owner", "told_id"))

    assert tuple(parameters_of(statement)) == ("check", "more", "owner", "told_id")
    assert " ".join(str(joined.compile(dialect=mysql.dialect())).split()) == (
        "UPDATE JSON_TABLE(%s, '$[*]' COLUMNS ("
        "`given_check` DATETIME(6) PATH '$[0]', "
        "`given_owner` LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]', "
        "`given_told_id` BIGINT PATH '$[2]')) AS fresh "
        "STRAIGHT_JOIN `SchedulerExecution` FORCE INDEX (PRIMARY) "
        "SET owner=fresh.given_owner, check_at=fresh.given_check, "
        "missed=(`SchedulerExecution`.missed + %s) "
        "WHERE `SchedulerExecution`.id = fresh.given_told_id AND `SchedulerExecution`.state = %s"
    )


def test_what_all_rows_agree_in_is_said_once_and_the_rest_as_json_with_moments_as_text() -> None:
    rows = rows_of(("id", "check", "owner"), [(7, NOON, None), (8, None, None)])

    [parameters] = ROWS.parameters(rows)

    assert rows.differing == ("id", "check")
    assert parameters == {"owner": None, "rows": '[[7,"2026-03-02 12:00:00.000000"],[8,null]]'}


def test_a_single_row_agrees_with_itself_and_needs_no_json() -> None:
    rows = rows_of(("id", "check"), [(7, NOON)])

    assert rows.differing == ()
    assert list(ROWS.parameters(rows)) == [{"id": 7, "check": NOON}]


def test_no_rows_are_no_parameters() -> None:
    assert list(ROWS.parameters(rows_of(("id", "check"), []))) == []
