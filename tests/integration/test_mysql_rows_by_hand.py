"""Rows that people write into the users' table, in sessions with other settings than ours."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import URL

from tests.integration.ledgers import MINUTE, Ledger
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
