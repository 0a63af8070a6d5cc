"""Rows that people write into the users' table, in sessions of their own, as they like."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import URL

from cronhare.ports import LedgerRefused
from tests.integration.ledgers import MINUTE, Ledger, Shell, draft
from tests.services.mariadb import run

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("zone", ["+05:30", "-08:00", "SYSTEM"])
def test_an_edit_has_the_time_of_utc_whatever_the_sessions_zone_is(
    mysql: Ledger, migrated_mysql: URL, zone: str
) -> None:
    mysql.add()

    run(
        migrated_mysql,
        f"SET time_zone = '{zone}'",
        "UPDATE Scheduler SET schedule = '*/2 * * * *' WHERE name = 'report'",
    )

    [stored] = mysql.schedules.schedules()
    assert abs(stored.updated_at - datetime.now(UTC)) < MINUTE


def test_a_schedule_is_not_written_beside_one_whose_name_is_the_same_to_the_table(
    mysql: Ledger, mysql_shell: Shell
) -> None:
    """Texts are compared as `utf8mb4_bin` does: without the blanks at their ends."""
    id_ = mysql.add("report")
    mysql_shell(f"UPDATE Scheduler SET name = 'report ' WHERE id = {id_}")

    with pytest.raises(LedgerRefused) as refused:
        mysql.save(draft("other"), draft("report"))

    assert f"row {id_} of Scheduler is named 'report ', and the table" in str(refused.value)
    assert [each.name for each in mysql.schedules.schedules()] == ["report "]
