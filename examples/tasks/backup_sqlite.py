"""Back up an SQLite database while it is in use, check the copy, and keep the last few.

Parameters: `source` and `folder`, relative to the examples folder; `keep`, how many copies (7).
The first time there is nothing to back up: a database is made from the CSV of sales.
"""

import csv
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cronhare import task

EXAMPLES = Path(__file__).resolve().parent.parent
PAGES_AT_ONCE = 256


def make_sample(path: Path) -> None:
    """Make a database to back up; safe to repeat, and to do twice at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (EXAMPLES / "data" / "sales.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(
            "CREATE TABLE IF NOT EXISTS sales"
            " (date TEXT, region TEXT, product TEXT, quantity INTEGER, price TEXT)"
        )
        database.execute("DELETE FROM sales")
        database.executemany("INSERT INTO sales VALUES (?, ?, ?, ?, ?)", rows)
    print(f"made {path} with {len(rows)} sales")


def say_progress(_status: int, remaining: int, total: int) -> None:
    """Tell how far the copy is: each report gives the task its whole timeout again."""
    task.progress((total - remaining) / total if total else 1.0)


def copy(source: Path, target: Path) -> None:
    """Copy page by page, beside whoever writes; raise unless the copy is sound."""
    with (
        closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as database,
        closing(sqlite3.connect(target)) as backup,
    ):
        database.backup(backup, pages=PAGES_AT_ONCE, progress=say_progress)
        (verdict,) = backup.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise task.PermanentError(f"the copy of {source} is damaged: {verdict}")


def main(params: dict[str, Any]) -> None:
    """Write one more dated copy and remove the oldest beyond *keep*."""
    source = (EXAMPLES / params.get("source", "var/sales.sqlite3")).resolve()
    folder = EXAMPLES / params.get("folder", "var/backups")
    keep = max(1, int(params.get("keep", 7)))
    if not source.exists():
        if not source.is_relative_to(EXAMPLES / "var"):
            raise task.PermanentError(f"{source} does not exist")
        make_sample(source)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{source.stem}-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.sqlite3"
    part = target.with_suffix(".part")
    try:
        copy(source, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    old = sorted(folder.glob(f"{source.stem}-????-??-??T??????Z.sqlite3"))[:-keep]
    for path in old:
        path.unlink(missing_ok=True)
    print(f"backed up {source} to {target.name}, {target.stat().st_size:,} bytes, sound")
    print(f"keeping the last {keep}, removed {len(old)}")


if __name__ == "__main__":
    task.run(main)
