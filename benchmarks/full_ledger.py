"""The full ledger that sections of `bench_web` share."""

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import attrs
from a_full_ledger import fill

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import upgrade
from tests.services import databases, mariadb, postgresql

#: Names a ledger that is there already, or a kind of server that is to be started.
GIVEN = "BENCH_LEDGER"

#: So much of a ledger a server keeps in memory: nearly all of it, as an operator would have it.
MEMORY = "1G"


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
    with _ledger(os.environ.get(GIVEN, "sqlite"), folder) as url:
        engine = open_engine(url)
        upgrade(engine)  # of one that an older release filled
        engine.dispose()
        yield FullLedger(url, folder)


@contextmanager
def _ledger(given: str, folder: Path) -> Iterator[str]:
    if given == "sqlite":
        url = f"sqlite:///{folder / 'full.sqlite3'}"
        fill(url)
        yield url
    elif given in {"mariadb", "postgresql"}:
        with _server(given, folder) as server:
            databases.run(server.url, "CREATE DATABASE full_ledger")
            url = server.url.set(database="full_ledger").render_as_string(hide_password=False)
            fill(url)
            yield url
    else:
        yield given


def _server(kind: str, folder: Path) -> AbstractContextManager[databases.Server]:
    if kind == "mariadb":
        return mariadb.private(folder / kind, f"--innodb-buffer-pool-size={MEMORY}")
    return postgresql.private(shared_buffers=f"{MEMORY}B", fsync="on")
