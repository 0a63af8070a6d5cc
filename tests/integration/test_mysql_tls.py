"""Links to a database with and without TLS, as a client on another machine sees them."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from tests.services import mariadb
from tests.services.certificates import Certified, certified

pytestmark = pytest.mark.integration

NAME = "ledger.test"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("ca"), f"DNS:{NAME}")


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, papers: Certified
) -> Iterator[mariadb.Private]:
    options = (f"--ssl-cert={papers.certificate}", f"--ssl-key={papers.key}")
    with mariadb.private(tmp_path_factory.mktemp("tls") / "m", *options) as server:
        yield server


@pytest.fixture
def plain(own_plain: mariadb.Private) -> mariadb.Private:
    return own_plain


@pytest.fixture(scope="module")
def own_plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mariadb.Private]:
    """Newer servers make certificates for themselves unless they are told otherwise."""
    with mariadb.private(tmp_path_factory.mktemp("plain") / "m", "--loose-skip-ssl") as server:
        [(version,)] = mariadb.run(server.url, "SELECT VERSION()")
        if "MariaDB" not in version:  # MySQL has no such option, and has to see the password once
            stop = "ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR"
            mariadb.run(server.url, "SET GLOBAL tls_version = ''", stop)
        yield server


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let names that are not of this machine lead to it."""
    real: Callable[..., Any] = socket.getaddrinfo

    def told(host: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the real one
        return real("127.0.0.1" if host.endswith(".test") else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", told)


def url(server: mariadb.Private, host: str, options: str = "") -> str:
    return f"mysql+pymysql://tester:tester@{host}:{server.port}/mysql{options}"


def protocol(url: str) -> str:
    """Connect, and tell how it is encrypted; empty if not at all."""
    engine = open_engine(url)
    with engine.connect() as connection:
        [(_, version)] = connection.execute(text("SHOW SESSION STATUS LIKE 'Ssl_version'"))
    engine.dispose()
    return str(version)


def refusal(url: str) -> str:
    """Tell why there is no connection."""
    engine = open_engine(url)
    with pytest.raises(LedgerUnavailable) as caught:
        check_schema(engine)
    assert not isinstance(caught.value, LedgerOutdated), "it was connected to"
    return str(caught.value)


def test_a_certificate_of_a_ca_that_is_named_is_verified(
    secured: mariadb.Private, papers: Certified
) -> None:
    assert protocol(url(secured, NAME, f"?ssl_ca={papers.ca}")).startswith("TLSv1.")


def test_a_certificate_of_a_ca_that_nobody_knows_is_refused(secured: mariadb.Private) -> None:
    said = refusal(url(secured, NAME))

    assert "its certificate is refused: " in said
    assert "?ssl_ca=" in said


def test_a_certificate_for_another_host_is_refused(
    secured: mariadb.Private, papers: Certified
) -> None:
    said = refusal(url(secured, "impostor.test", f"?ssl_ca={papers.ca}"))

    assert "its certificate is refused: Hostname mismatch" in said


def test_a_host_that_is_not_this_machine_must_speak_tls(plain: mariadb.Private) -> None:
    said = refusal(url(plain, NAME))

    assert "the server speaks no TLS" in said
    assert "?tls=off" in said


def test_plain_text_is_spoken_when_it_is_asked_for(
    plain: mariadb.Private, secured: mariadb.Private
) -> None:
    assert protocol(url(plain, NAME, "?tls=off")) == ""
    assert protocol(url(secured, NAME, "?tls=off")) == ""


def test_on_this_machine_tls_is_taken_where_it_is_offered(
    plain: mariadb.Private, secured: mariadb.Private
) -> None:
    assert protocol(url(plain, "127.0.0.1")) == ""
    assert protocol(url(secured, "127.0.0.1")).startswith("TLSv1.")


def test_tls_can_be_demanded_on_this_machine_too(
    plain: mariadb.Private, secured: mariadb.Private
) -> None:
    assert "speaks no TLS" in refusal(url(plain, "127.0.0.1", "?tls=verified"))
    assert "certificate is refused" in refusal(url(secured, "127.0.0.1", "?tls=verified"))


def test_a_certificate_file_that_is_missing_or_none_is_told_before_anything_is_connected(
    tmp_path: Path,
) -> None:
    (tmp_path / "none").write_text("no certificate\n")
    for path, why in ((tmp_path / "gone", "No such file"), (tmp_path / "none", "")):
        with pytest.raises(ValueError, match=f"ssl_ca .*{path}.* cannot be read as PEM: .*{why}"):
            open_engine(f"mysql://u:secret@{NAME}/cron?ssl_ca={path}")
