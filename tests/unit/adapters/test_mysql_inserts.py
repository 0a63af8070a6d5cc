"""What is said to MySQL and MariaDB to insert new executions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from cronhare.adapters.sql.dialects.mysql import dialect as mysql
from cronhare.adapters.sql.dialects.mysql.dialect import inserts
from cronhare.adapters.sql.rows.executions import NEW_COLUMNS
from cronhare.adapters.sql.schema.types import to_text

NOON = to_text(datetime(2026, 3, 2, 12, tzinfo=UTC))


def values(**changes: Any) -> tuple[Any, ...]:  # noqa: ANN401
    given = {
        **dict.fromkeys(NEW_COLUMNS),
        "scheduler_id": 7,
        "execution_key": "cron-1",
        "state": "claimed",
        "executed_at": NOON,
    }
    return tuple((given | changes).values())


def test_what_all_rows_agree_in_is_one_parameter_and_what_none_has_is_left_out() -> None:
    [insert] = inserts([values(scheduler_id=7), values(scheduler_id=8, params="{}")])

    assert insert.parameters["execution_key"] == "cron-1"
    assert insert.text.count("%(execution_key)s") == 2
    assert [insert.parameters[f"scheduler_id_{place}"] for place in (0, 1)] == [7, 8]
    assert [insert.parameters[f"params_{place}"] for place in (0, 1)] == [None, "{}"]
    assert "last_error" not in insert.text
    assert "queue" in insert.text  # it may not be NULL: the database is to refuse it
    assert insert.text % insert.parameters


def test_a_row_alone_has_parameters_of_its_own_name() -> None:
    [insert] = inserts([values(params='{"discount":"5%"}')])

    assert insert.parameters["params"] == '{"discount":"5%"}'
    assert insert.text.count("(%(scheduler_id)s") == 1


def test_rows_are_divided_before_a_statement_is_larger_than_the_server_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mysql, "LARGEST_DOCUMENT", 10_000)
    keys = [f"cron-{number}" for number in range(9)]

    found = list(inserts([values(execution_key=key, params="ä" * 900) for key in keys]))

    assert len(found) == 5  # 3,600 bytes each, at the most
    said = [each.parameters[f"execution_key_{n}"] for each in found[:4] for n in (0, 1)]
    assert [*said, found[4].parameters["execution_key_0"]] == keys


def test_no_rows_are_no_statement() -> None:
    assert not list(inserts([]))
