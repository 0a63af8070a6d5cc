"""Many rows as one JSON parameter."""

import json

import pytest
from sqlalchemy import bindparam, update
from sqlalchemy.dialects import mysql

from cronhare.adapters.sql import mysql_rows
from cronhare.adapters.sql.mysql_rows import arrays, documents, update_from_rows
from cronhare.adapters.sql.tables import executions
from cronhare.adapters.sql.types import UtcDateTime
from tests.integration.ledgers import NOON


def test_rows_are_written_into_as_few_documents_as_their_size_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mysql_rows, "LARGEST_DOCUMENT", 20)
    rows: list[list[object]] = [[1, "ab"], [2, None], [3, "x" * 50], [4, "c"], [5, 'd"']]

    written = [json.loads(document) for document in documents(rows)]

    assert written == [rows[:2], [rows[2]], rows[3:]]


def test_no_rows_are_no_document() -> None:
    assert list(documents([])) == []


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

    joined, names = update_from_rows(statement)

    assert names == ("check", "more", "owner", "told_id")
    assert " ".join(str(joined.compile(dialect=mysql.dialect())).split()) == (
        "UPDATE `SchedulerExecution`, JSON_TABLE(%s, '$[*]' COLUMNS ("
        "`check` DATETIME(6) PATH '$[0]', `more` BIGINT PATH '$[1]', "
        "`owner` LONGTEXT CHARACTER SET utf8mb4 PATH '$[2]', `told_id` BIGINT PATH '$[3]')) "
        "AS fresh "
        "SET `SchedulerExecution`.owner=fresh.owner, "
        "`SchedulerExecution`.check_at=fresh.`check`, "
        "`SchedulerExecution`.missed=(`SchedulerExecution`.missed + fresh.more) "
        "WHERE `SchedulerExecution`.id = fresh.told_id AND `SchedulerExecution`.state = %s"
    )


def test_the_parameters_of_a_row_are_put_in_order_with_moments_as_text() -> None:
    rows = [{"id": 7, "check": NOON, "owner": None}]

    assert list(arrays(("check", "id", "owner"), rows)) == [["2026-03-02 12:00:00.000000", 7, None]]
