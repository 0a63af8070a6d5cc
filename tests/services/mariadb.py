"""A MySQL or MariaDB server for the tests, and fresh databases on it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import attrs
import pymysql
from sqlalchemy import URL, make_url

from tests.services import lives
from tests.services.finding import address, binary, end, free_port, has_docker, missing
from tests.services.lives import PATIENCE

ADDRESS = "CRON_TEST_DATABASE_URL"
HINT = (
    f"set {ADDRESS}=mysql+pymysql://user:password@host/ to a server where databases may be "
    "created, start Docker, or: apt-get install mariadb-server"
)

#: What an administrator may have chosen, and our sessions must not depend on.
CONTRARY = (
    "--default-time-zone=+05:30",
    "--sql-mode=",
    "--transaction-isolation=REPEATABLE-READ",
    "--character-set-server=latin1",
    "--collation-server=latin1_swedish_ci",
)

#: A dozen of them share a machine with the tests: with the defaults, each keeps 96 MiB of log,
#: eleven threads more, and asks for a share of what the kernel has for asynchronous reads.
LEAN = (
    "--innodb-log-file-size=16M",
    "--innodb-use-native-aio=0",
    "--innodb-read-io-threads=1",
    "--innodb-write-io-threads=1",
    "--innodb-purge-threads=1",
)
HURT = f"unset {ADDRESS}, and a private one is started"
IMAGE = "mysql:8.4"


class Server(lives.Server, Protocol):
    @property
    def url(self) -> URL: ...


def connect(url: URL, **changes: Any) -> "pymysql.Connection[Any]":  # noqa: ANN401
    """Open a session as an operator would: with the server's own settings. Commits by itself."""
    assert url.host is not None, "without a host it would be the machine's own instance"
    return pymysql.connect(
        host=url.host,
        port=url.port or 3306,
        user=url.username,
        password=url.password or "",
        database=url.database,
        autocommit=True,
        # With TLS it would read the trusted roots each time, for some 50 ms.
        **{"ssl_disabled": True, **changes},
    )


def run(url: URL, *statements: str) -> list[tuple[Any, ...]]:
    with connect(url) as session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    given = address(ADDRESS)
    if given is not None:
        yield Given(make_url(given).set(database=None))
    elif has_docker():
        with _contained() as contained:
            yield contained
    else:
        with private(folder) as own:
            yield own


@contextmanager
def private(folder: Path, *options: str) -> Iterator["Private"]:
    if binary("mariadbd") is None or binary("mariadb-install-db") is None:
        missing("MariaDB", HINT)
    folder.mkdir(parents=True, exist_ok=True)
    own = Private(folder, options=options)
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
    """MariaDB, with a socket of its own as well; *options* go to the server."""

    options: tuple[str, ...] = ()

    @property
    def url(self) -> URL:
        return _local("tester", self.port)

    def start(self) -> None:
        data = self.folder / "data"
        if not data.exists():
            self._install(data)
        self._launch(str(binary("mariadbd")), *self._options(data))

    def accepts(self) -> bool:
        return accepts(self.url)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            end(self._process)

    def _install(self, data: Path) -> None:
        command = [
            str(binary("mariadb-install-db")),
            "--no-defaults",
            f"--datadir={data}",
            f"--tmpdir={self.folder}",  # each server that starts deletes what others left in /tmp
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--force",  # or it refuses to go on where the machine's own name has no address
            *LEAN,
            *_as_whoever_we_are(),
        ]
        installed = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        if installed.returncode:
            told = installed.stdout + installed.stderr
            raise RuntimeError(f"{' '.join(command)}:\n{told}")
        (self.folder / "users.sql").write_text(
            "CREATE USER IF NOT EXISTS tester@'127.0.0.1' IDENTIFIED BY 'tester';\n"
            "GRANT ALL ON *.* TO tester@'127.0.0.1' WITH GRANT OPTION;\n"
        )

    def _options(self, data: Path) -> list[str]:
        return [
            "--no-defaults",
            f"--datadir={data}",
            f"--socket={self.folder / 's'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--tmpdir={self.folder}",
            f"--port={self.port}",
            f"--init-file={self.folder / 'users.sql'}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            *CONTRARY,
            *LEAN,
            *self.options,
            *_as_whoever_we_are(),
        ]


def _as_whoever_we_are() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _local(user: str, port: int) -> URL:
    return URL.create(
        "mysql+pymysql", username=user, password="tester", host="127.0.0.1", port=port
    )


def accepts(url: URL) -> bool:
    """Tell whether a user may log in. From then on MySQL knows his password, until it ends."""
    with suppress(pymysql.MySQLError):
        try:
            connect(url, connect_timeout=2).close()
        except (
            RuntimeError
        ):  # MySQL wants to see a password once, and the driver wants TLS for that
            unverified = {"check_hostname": False}
            connect(url, connect_timeout=2, ssl_disabled=False, ssl=unverified).close()
        return True
    return False


@contextmanager
def _contained() -> Iterator[Server]:
    """MySQL rather than MariaDB: what the binaries of a Debian machine cannot show."""
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - only with Docker

    port = free_port()
    container = (
        DockerContainer(IMAGE)
        .with_env("MYSQL_ROOT_PASSWORD", "tester")
        .with_bind_ports(3306, port)
        .with_command(" ".join(option for option in CONTRARY))
    )
    with container:
        contained = Contained(port, container)
        contained.wait()
        yield contained


class Contained(lives.Contained):
    @property
    def url(self) -> URL:
        return _local("root", self.port)

    def accepts(self) -> bool:
        return accepts(self.url)
