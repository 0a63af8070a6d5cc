"""Links to PostgreSQL with and without TLS, and the password in the hands of an impostor."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest
from sqlalchemy import text

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from tests.services import postgresql
from tests.services.certificates import Certified, certified

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("ca"), "DNS:localhost")


@pytest.fixture(scope="module")
def secured(papers: Certified) -> Iterator[postgresql.Private]:
    with postgresql.private(papers) as server:
        yield server


@pytest.fixture
def plain(postgresql_server: postgresql.Server) -> postgresql.Server:
    return postgresql_server


def url(server: postgresql.Server, host: str = "localhost", options: str = "") -> str:
    return f"postgresql+psycopg://tester:tester@{host}:{server.url.port}/postgres{options}"


def protocol(url: str) -> str | None:
    """Connect, and tell how it is encrypted; None if not at all."""
    engine = open_engine(url)
    with engine.connect() as connection:
        version: str | None = connection.scalar(
            text("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        )
    engine.dispose()
    return version


def refusal(url: str) -> str:
    """Tell why there is no connection."""
    engine = open_engine(url)
    with pytest.raises(LedgerUnavailable) as caught:
        check_schema(engine)
    assert not isinstance(caught.value, LedgerOutdated), "it was connected to"
    return str(caught.value)


def test_a_certificate_of_a_ca_that_is_named_is_verified(
    secured: postgresql.Private, papers: Certified
) -> None:
    found = protocol(url(secured, options=f"?ssl_ca={papers.ca}"))

    assert str(found).startswith("TLSv1.")


def test_a_certificate_of_a_ca_that_nobody_knows_is_refused(secured: postgresql.Private) -> None:
    said = refusal(url(secured, options="?tls=verified"))

    assert "its certificate is refused" in said
    assert "?ssl_ca=" in said


def test_a_certificate_for_another_host_is_refused(
    secured: postgresql.Private, papers: Certified
) -> None:
    said = refusal(url(secured, "127.0.0.1", f"?ssl_ca={papers.ca}"))

    assert "its certificate is refused" in said


def test_a_server_that_is_to_speak_tls_and_does_not_is_refused(plain: postgresql.Server) -> None:
    said = refusal(url(plain, options="?tls=verified"))

    assert "the server speaks no TLS" in said
    assert "?tls=off" in said


def test_plain_text_is_spoken_when_it_is_asked_for_and_tls_taken_where_it_is_offered(
    plain: postgresql.Server, secured: postgresql.Private
) -> None:
    assert protocol(url(plain, options="?tls=off")) is None
    assert protocol(url(secured, options="?tls=off")) is None
    assert protocol(url(plain)) is None
    assert str(protocol(url(secured))).startswith("TLSv1.")


def test_a_socket_is_found_in_its_folder(secured: postgresql.Private) -> None:
    assert protocol(url(secured, options=f"?unix_socket={secured.folder}")) is None


@pytest.mark.parametrize("options", ["?sslmode=disable", "?sslmode=require", "?host=other"])
def test_no_option_of_the_driver_turns_it_off(options: str) -> None:
    with pytest.raises(ValueError, match="known are tls, ssl_ca, ssl_cert, ssl_key, unix_socket"):
        open_engine(f"postgresql://u:secret@ledger.test/cron{options}")


def test_an_impostor_on_this_machine_is_given_no_password() -> None:
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def ask_for_the_password() -> None:
            for _ in range(2):  # the driver may ask for TLS first, by a session of its own
                client, _ = listener.accept()
                client.settimeout(5)
                with client, suppress(OSError):
                    if client.recv(8)[4:] == b"\x04\xd2\x16\x2f":
                        client.sendall(b"N")
                        client.recv(1_000)
                    client.sendall(b"R\x00\x00\x00\x08\x00\x00\x00\x03")
                    heard.extend(client.recv(1_000))
                    return

        thread = Thread(target=ask_for_the_password)
        thread.start()
        port = listener.getsockname()[1]
        said = refusal(f"postgresql://tester:c4nary@127.0.0.1:{port}/cron")
        thread.join()

    assert b"c4nary" not in heard
    assert "asks for the password in clear text" in said
