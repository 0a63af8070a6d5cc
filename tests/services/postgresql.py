"""A PostgreSQL server for the tests, and fresh databases on it."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import chown, copyfile
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import attrs
import psycopg
from sqlalchemy import URL, make_url

from tests.services import lives
from tests.services.certificates import Certified
from tests.services.finding import address, binary, missing
from tests.services.lives import PATIENCE

ADDRESS = "CRON_TEST_POSTGRESQL_URL"
HINT = (
    f"set {ADDRESS}=postgresql+psycopg://user:password@host/ to a server where databases may be "
    "created, or: apt-get install postgresql"
)
HURT = f"unset {ADDRESS}, and a private one is started"

#: What an administrator may have chosen, and our sessions must not depend on.
CONTRARY = {
    "TimeZone": "Asia/Kolkata",
    "DateStyle": "SQL, DMY",
    "default_transaction_isolation": "repeatable read",
    "lock_timeout": "0",
    "fsync": "off",  # a test's data need not outlive a power loss
}

#: The server refuses to run as root.
_ACCOUNT = "postgres"


class Server(lives.Server, Protocol):
    @property
    def url(self) -> URL: ...


def connect(url: URL, **options: Any) -> "psycopg.Connection[Any]":  # noqa: ANN401
    """Open a session as an operator would: with the server's own settings. Commits by itself."""
    assert url.host is not None, "without a host it would be the machine's own instance"
    return psycopg.connect(
        host=url.host,
        port=url.port or 5432,
        user=url.username,
        password=url.password or "",
        dbname=url.database,
        autocommit=True,
        sslmode="disable",
        options="-c DateStyle=ISO",  # the driver reads no other
        **options,
    )


def run(url: URL, *statements: str) -> list[tuple[Any, ...]]:
    with connect(url) as session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def server() -> Iterator[Server]:
    given = address(ADDRESS)
    if given is not None:
        yield Given(make_url(given).set(database="postgres"))
        return
    with private() as own:
        yield own


@contextmanager
def private(papers: Certified | None = None, **options: str) -> Iterator["Private"]:
    """Start one that is ours, with options of its own; it speaks TLS if it has *papers*.

    Its folder is not among those of the tests: these are closed to others, and it is another user.
    """
    if program("initdb") is None:
        missing("PostgreSQL", HINT)
    with TemporaryDirectory(prefix="cronhare-postgresql-", ignore_cleanup_errors=True) as folder:
        own = Private(Path(folder), options=options, papers=papers)
        try:
            own.start()
            yield own
        finally:
            own.stop()


def program(name: str) -> Path | None:
    """Find a program of the newest version: Debian keeps each version's in a folder of its own."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda at: int(at.parts[-3])
    )
    return versions[-1] if versions else binary(name)


@contextmanager
def standby(primary: "Private") -> Iterator["Private"]:
    with TemporaryDirectory(prefix="cronhare-standby-", ignore_cleanup_errors=True) as folder:
        own = Private(Path(folder))
        own.copy(primary)
        try:
            own.start()
            yield own
        finally:
            own.stop()


@attrs.frozen
class Given(lives.Lent):
    url: URL


@attrs.define
class Private(lives.Private):
    """One from this machine's binaries; *options* are its settings."""

    options: dict[str, str] = attrs.field(factory=dict)
    papers: Certified | None = None

    @property
    def url(self) -> URL:
        return URL.create(
            "postgresql+psycopg",
            username="tester",
            password="tester",
            host="127.0.0.1",
            port=self.port,
            database="postgres",
        )

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        if not self.data.exists():
            self._install()
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "max_connections": "300",
            **CONTRARY,
            **self.options,
        }
        said = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._launch(*_as_nobody_mighty(), str(program("postgres")), "-D", str(self.data), *said)

    def accepts(self) -> bool:
        with suppress(psycopg.Error):
            connect(self.url, connect_timeout=2).close()
            return True
        return False

    def kill(self) -> None:
        """See `Server.kill`. Its sessions as well: they would keep its memory to themselves."""
        assert self._process is not None
        children = _children(self.pid)
        self._process.kill()
        self._process.wait(PATIENCE)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def stop(self) -> None:
        """See `Server.stop`. Politely, and without waiting for those who are connected."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(PATIENCE)

    def copy(self, primary: "Private") -> None:
        if os.geteuid() == 0:
            chown(self.folder, _ACCOUNT, _ACCOUNT)
        command = [
            *_as_nobody_mighty(),
            str(program("pg_basebackup")),
            f"--pgdata={self.data}",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
            f"--dbname=host=127.0.0.1 port={primary.port} user=tester password=tester",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE, cwd="/")

    def _install(self) -> None:
        if os.geteuid() == 0:
            chown(self.folder, _ACCOUNT, _ACCOUNT)
        password = self.folder / "password"
        password.write_text("tester")
        password.chmod(0o644)
        command = [
            *_as_nobody_mighty(),
            str(program("initdb")),
            f"--pgdata={self.data}",
            "--username=tester",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE, cwd="/")
        if self.papers is not None:
            self._certify(self.papers)

    def _certify(self, papers: Certified) -> None:
        for paper, name in ((papers.certificate, "server.crt"), (papers.key, "server.key")):
            place = self.data / name
            copyfile(paper, place)
            place.chmod(0o600)
            if os.geteuid() == 0:
                chown(place, _ACCOUNT, _ACCOUNT)
        self.options = {**self.options, "ssl": "on"}


def _as_nobody_mighty() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_ACCOUNT}", f"--regid={_ACCOUNT}", "--clear-groups"]


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in found.split()]
