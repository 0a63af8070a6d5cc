"""The ledger goes away and comes back; nobody is started again."""

import time
from contextlib import suppress

import pymysql

from tests.faults.house import House
from tests.services.mariadb import connect

KILLINGS = 8

#: The sessions of whoever is neither the server itself nor we.
OTHERS = """\
SELECT id FROM information_schema.processlist
WHERE id <> CONNECTION_ID() AND user = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)
"""


def killed(house: House) -> None:
    """Kill the database with retries under way, and start it again after a while."""
    house.load()
    house.servers.mariadb.kill()
    try:
        time.sleep(house.die.uniform(1, 4))
    finally:
        house.servers.mariadb.start()
    house.recover()
    house.check_that_all_live()


def restarted(house: House) -> None:
    """Restart the database politely."""
    house.load()
    house.servers.mariadb.stop()
    house.servers.mariadb.start()
    house.recover()
    house.check_that_all_live()


def sessions_killed(house: House) -> None:
    """Kill every session of ours, again and again."""
    house.load()
    with connect(house.servers.mariadb.url) as session, session.cursor() as cursor:
        for _ in range(KILLINGS):
            time.sleep(house.die.uniform(0.05, 0.5))
            cursor.execute(OTHERS)
            for (number,) in cursor.fetchall():
                with suppress(pymysql.MySQLError):  # it has gone by itself
                    cursor.execute(f"KILL {number}")
    house.recover()
    house.check_that_all_live()


SCENARIOS = {
    "database-killed": killed,
    "database-restarted": restarted,
    "database-sessions-killed": sessions_killed,
}
