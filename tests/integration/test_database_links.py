"""Links to a database with and without TLS, and who is given the password."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

import attrs
import pytest
from sqlalchemy import URL, text

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from tests.services import mariadb, postgresql
from tests.services.certificates import Certified, certified

pytestmark = pytest.mark.integration

#: Of a host that is not this machine.
AWAY = "ledger.test"


@attrs.frozen
class Servers:
    """One that speaks TLS, certified as `localhost`, and one that does not."""

    base: URL
    asked: str
    secured: mariadb.Private | postgresql.Private
    plain: mariadb.Private | postgresql.Server

    def at(self, server: Any, options: str = "", host: str = "localhost") -> str:  # noqa: ANN401
        here = self.base.set(host=host, port=server.url.port)
        return here.render_as_string(hide_password=False) + options

    def protocol(self, url: str) -> str:
        """Connect, and tell how it is encrypted; empty if not at all."""
        engine = open_engine(url)
        with engine.connect() as connection:
            version = connection.execute(text(self.asked)).one()[-1]
        engine.dispose()
        return version or ""


def refusal(url: str) -> str:
    """Tell why there is no connection."""
    engine = open_engine(url)
    with pytest.raises(LedgerUnavailable) as caught:
        check_schema(engine)
    assert not isinstance(caught.value, LedgerOutdated), "it was connected to"
    return str(caught.value)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("ca"), "DNS:localhost")


@pytest.fixture(scope="module")
def own_plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mariadb.Private]:
    """Newer servers make certificates for themselves unless they are told otherwise."""
    with mariadb.private(tmp_path_factory.mktemp("plain") / "m", "--loose-skip-ssl") as server:
        [(version,)] = mariadb.run(server.url, "SELECT VERSION()")
        if "MariaDB" not in version:  # MySQL has no such option, and has to see the password once
            stop = "ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR"
            mariadb.run(server.url, "SET GLOBAL tls_version = ''", stop)
        yield server


@pytest.fixture(scope="module", params=["mysql", "postgresql"])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, papers: Certified
) -> Iterator[Servers]:
    base = URL.create("mysql+pymysql", "tester", "tester", database="mysql")
    if request.param == "postgresql":
        base = base.set(drivername="postgresql+psycopg", database="postgres")
        asked = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        with postgresql.private(papers) as secured:
            yield Servers(base, asked, secured, request.getfixturevalue("postgresql_server"))
        return
    asked = "SHOW SESSION STATUS LIKE 'Ssl_version'"
    options = (f"--ssl-cert={papers.certificate}", f"--ssl-key={papers.key}")
    with mariadb.private(tmp_path_factory.mktemp("tls") / "m", *options) as server:
        yield Servers(base, asked, server, request.getfixturevalue("own_plain"))


def test_a_certificate_of_a_ca_that_is_named_is_verified(
    servers: Servers, papers: Certified
) -> None:
    url = servers.at(servers.secured, f"?ssl_ca={papers.ca}")

    assert servers.protocol(url).startswith("TLSv1.")


def test_a_server_that_is_not_verified_is_refused_with_what_to_do(
    servers: Servers, papers: Certified
) -> None:
    unknown = refusal(servers.at(servers.secured, "?tls=verified"))
    of_another = refusal(servers.at(servers.secured, f"?ssl_ca={papers.ca}", host="127.0.0.1"))
    plain = refusal(servers.at(servers.plain, "?tls=verified"))

    assert "its certificate is refused" in unknown
    assert "?ssl_ca=" in unknown
    assert "its certificate is refused" in of_another
    assert "the server speaks no TLS" in plain
    assert "?tls=off" in plain


def test_plain_text_is_spoken_when_it_is_asked_for_and_tls_taken_where_it_is_offered(
    servers: Servers,
) -> None:
    assert servers.protocol(servers.at(servers.plain, "?tls=off")) == ""
    assert servers.protocol(servers.at(servers.secured, "?tls=off")) == ""
    assert servers.protocol(servers.at(servers.plain)) == ""
    assert servers.protocol(servers.at(servers.secured)).startswith("TLSv1.")


@pytest.mark.parametrize("servers", ["mysql"], indirect=True)
def test_a_host_that_is_not_this_machine_must_speak_verified_tls(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Any] = socket.getaddrinfo

    def here(host: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the real one
        return real("127.0.0.1" if host == AWAY else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", here)

    assert "the server speaks no TLS" in refusal(servers.at(servers.plain, host=AWAY))
    assert "its certificate is refused" in refusal(servers.at(servers.secured, host=AWAY))
    assert servers.protocol(servers.at(servers.plain, "?tls=off", host=AWAY)) == ""


@pytest.mark.parametrize("servers", ["postgresql"], indirect=True)
def test_a_socket_is_found_in_its_folder(servers: Servers) -> None:
    assert isinstance(servers.secured, postgresql.Private)
    url = servers.at(servers.secured, f"?unix_socket={servers.secured.folder}")

    assert servers.protocol(url) == ""


@pytest.mark.parametrize("options", ["?sslmode=disable", "?sslmode=require", "?host=other"])
def test_no_option_of_the_driver_turns_it_off(options: str) -> None:
    with pytest.raises(ValueError, match="known are tls, ssl_ca, ssl_cert, ssl_key, unix_socket"):
        open_engine(f"postgresql://u:secret@ledger.test/cron{options}")


def ask_as_postgresql(client: socket.socket) -> bytes:
    if client.recv(8)[4:] == b"\x04\xd2\x16\x2f":  # the driver asks for TLS first
        client.sendall(b"N")
        client.recv(1_000)
    client.sendall(b"R\x00\x00\x00\x08\x00\x00\x00\x03")
    return client.recv(1_000)


def ask_as_mysql(client: socket.socket, plugin: bytes = b"mysql_clear_password\0") -> bytes:
    def say(number: int, payload: bytes) -> None:
        client.sendall(struct.pack("<I", len(payload))[:3] + bytes([number]) + payload)

    salt, able = b"a" * 20, struct.pack("<HBHHB", 0xF7FF & ~0x800, 33, 2, 0x00FF, 21)
    greeting = b"\x0a8.0.36\0" + struct.pack("<I", 7) + salt[:8] + b"\0" + able + bytes(10)
    say(0, greeting + salt[8:] + b"\0mysql_native_password\0")
    client.recv(1_000)
    say(2, b"\xfe" + plugin)
    return client.recv(1_000)


@pytest.mark.parametrize(
    ("scheme", "ask"),
    [
        ("postgresql", ask_as_postgresql),
        ("mysql", ask_as_mysql),
        ("mysql", partial(ask_as_mysql, plugin=b"dialog\0\4Password: ")),
    ],
    ids=["postgresql", "mysql", "mysql by PAM"],
)
def test_an_impostor_on_this_machine_is_given_no_password(
    scheme: str, ask: Callable[[socket.socket], bytes]
) -> None:
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            client.settimeout(5)
            with client, suppress(OSError):
                heard.extend(ask(client))

        thread = Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        said = refusal(f"{scheme}://tester:c4nary@127.0.0.1:{port}/cron")
        thread.join()

    assert b"c4nary" not in heard
    assert "asks for the password in clear text" in said
