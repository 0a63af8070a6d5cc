"""What a process does with its ledger's file ends none of the locks that SQLite has on it."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cronhare.adapters.sql.dialects.sqlite_file import make_file, occupy

pytestmark = pytest.mark.integration

#: Another process that writes, and is gone: were it the last, it would remove the WAL.
_PASSER_BY = """
import sqlite3, sys
ledger = sqlite3.connect(sys.argv[1])
ledger.execute("INSERT INTO said VALUES ('passer-by')")
ledger.commit()
ledger.close()
"""


@pytest.mark.parametrize(
    "handle", [make_file, lambda path: occupy(path, alone=False)], ids=["make", "occupy"]
)
def test_another_process_does_not_take_itself_for_the_last(
    handle: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    make_file(path)
    with closing(sqlite3.connect(path)) as ours:
        ours.execute("PRAGMA journal_mode = WAL")
        ours.execute("CREATE TABLE said (what TEXT)")
        ours.commit()

        handle(path)
        subprocess.run([sys.executable, "-c", _PASSER_BY, str(path)], check=True, timeout=60)

        assert path.with_name("ledger.db-wal").exists()
        ours.execute("INSERT INTO said VALUES ('ours')")
        ours.commit()
    with closing(sqlite3.connect(path)) as later:
        assert later.execute("SELECT what FROM said").fetchall() == [("passer-by",), ("ours",)]
