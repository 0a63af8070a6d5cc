"""The full ledger that sections of `bench_web` share."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
from a_full_ledger import fill

from cronhare.adapters.sql import open_engine, upgrade

#: Names a ledger that is there already.
GIVEN = "BENCH_LEDGER"


@attrs.frozen
class FullLedger:
    """A ledger that was filled, and a folder for what else is needed."""

    url: str
    folder: Path

    @property
    def path(self) -> Path:
        """The file; only SQLite has one."""
        kind, _, path = self.url.partition(":///")
        assert kind == "sqlite", f"this section is about SQLite, not {kind}"
        return Path(path)

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """Give a copy that may be changed."""
        path = self.folder / "copy.sqlite3"
        shutil.copyfile(self.path, path)
        try:
            yield path
        finally:
            for left in self.folder.glob("copy.sqlite3*"):
                left.unlink()


@contextmanager
def full_ledger(folder: Path) -> Iterator[FullLedger]:
    """Fill a ledger, or take the one that is named."""
    url = os.environ.get(GIVEN)
    if url is None:
        url = f"sqlite:///{folder / 'full.sqlite3'}"
        fill(url)
    engine = open_engine(url)
    upgrade(engine)  # of one that an older release filled
    engine.dispose()
    yield FullLedger(url, folder)
