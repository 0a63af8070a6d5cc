"""What a server is told that only pretends to be the ledger's."""

import hashlib
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from cronhare.adapters.sql.dialects import open_engine
from cronhare.adapters.sql.migrations.upgrade import check_schema
from cronhare.ports import LedgerOutdated, LedgerUnavailable
from tests.services.certificates import certified
from tests.services.mysql_wire import OK, greeting, packet

pytestmark = pytest.mark.integration

PASSWORD = "c4naryS3cret"
CLEAR = b"mysql_clear_password\0"
PAM = b"dialog\0\4Password: "
SALT = b"b" * 20
SHA256 = b"sha256_password\0" + SALT + b"\0"
CACHING = b"caching_sha2_password\0" + SALT + b"\0"

#: What a server says then: that the hash will do, that it wants the password, and its RSA key.
WELL, IN_FULL, KEY = b"\1\3", b"\1\4", b"\1-----BEGIN PUBLIC KEY-----"
#: How long the packet is in which a client asks for TLS, with its header.
SSL_REQUEST = 36
DENIED = b"\xff\x15\x04#28000Access denied"


class Impostor:
    """Greets whoever comes, says what it has to say one by one, and keeps what it is told."""

    def __init__(
        self,
        listener: socket.socket,
        *says: bytes,
        greets: bytes = b"mysql_native_password",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.heard = b""
        self._listener = listener
        self._says = says
        self._greets = greets
        self._tls = tls
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError), self._listener:
            client, _ = self._listener.accept()
            client.sendall(greeting(self._greets, tls=self._tls is not None))
            if self._tls is not None:
                # That it wants TLS, and no byte of the handshake, which may come with it.
                client.recv(SSL_REQUEST, socket.MSG_WAITALL)
                client = self._tls.wrap_socket(client, server_side=True)
            number = 2 if self._tls is None else 3
            with client:
                for each in (*self._says, DENIED):
                    self.heard += client.recv(4_096)
                    client.sendall(packet(number, each))
                    number += 1 if each == WELL else 2
                    if each == WELL:
                        client.sendall(packet(number, OK))
                        number = 1
                while got := client.recv(4_096):
                    self.heard += got

    def gone(self) -> bytes:
        """Wait until its client has left; give all that was heard."""
        self._thread.join(60)
        return self.heard


@pytest.fixture(params=["dialog", "clear"])
def asks(request: pytest.FixtureRequest) -> bytes:
    return b"\xfe" + (CLEAR if request.param == "clear" else PAM)


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A certificate that the impostor has made for himself."""
    made = certified(tmp_path_factory.mktemp("impostor"), "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    return context


def refusal(url: str) -> str:
    with pytest.raises(LedgerUnavailable) as caught:
        check_schema(open_engine(url))
    assert not isinstance(caught.value, LedgerOutdated), "it was connected to"
    return str(caught.value)


@pytest.mark.parametrize("options", ["", "?tls=off"])
def test_whoever_answers_in_the_servers_place_is_not_told_the_password(
    asks: bytes, options: str
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    impostor = Impostor(listener, asks)

    said = refusal(f"mysql://ant:{PASSWORD}@127.0.0.1:{listener.getsockname()[1]}/cron{options}")

    assert "asks for the password in clear text" in said
    assert "?ssl_ca=" in said
    assert PASSWORD.encode() not in impostor.gone()


def test_a_server_behind_its_socket_may_ask_for_it(tmp_path: Path, asks: bytes) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "m.sock"))
    listener.listen()
    server = Impostor(listener, asks)

    refusal(f"mysql://ant:{PASSWORD}@localhost/cron?unix_socket={tmp_path}/m.sock")

    assert PASSWORD.encode() in server.gone()


@pytest.mark.parametrize(
    "says",
    [(b"\xfe" + SHA256,), (b"\xfe" + SHA256, KEY), (b"\xfe" + CACHING, IN_FULL, KEY)],
    ids=["sha256", "sha256 by a key", "caching in full"],
)
@pytest.mark.parametrize("encrypted", [True, False], ids=["tls", "plain"])
def test_nor_does_one_hear_it_who_encrypts_with_what_nobody_has_verified(
    says: tuple[bytes, ...], encrypted: bool, self_signed: ssl.SSLContext
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    impostor = Impostor(listener, *says, tls=self_signed if encrypted else None)

    said = refusal(f"mysql://ant:{PASSWORD}@127.0.0.1:{listener.getsockname()[1]}/cron")

    assert "could be anybody" in said
    assert "?unix_socket=" in said
    assert PASSWORD.encode() not in impostor.gone()


@pytest.mark.parametrize("greets", [b"mysql_native_password", b"caching_sha2_password"])
def test_a_server_that_has_the_password_in_its_cache_is_content_with_a_proof(greets: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    asks = () if greets.startswith(b"caching") else (b"\xfe" + CACHING,)
    server = Impostor(listener, *asks, WELL, greets=greets)

    said = refusal(f"mysql://ant:{PASSWORD}@127.0.0.1:{listener.getsockname()[1]}/cron")

    assert "could be anybody" not in said  # it logged in, and was refused its first statement
    heard = server.gone()
    salt = SALT if asks else b"a" * 20
    once = hashlib.sha256(PASSWORD.encode()).digest()
    mask = hashlib.sha256(hashlib.sha256(once).digest() + salt).digest()
    assert bytes(a ^ b for a, b in zip(once, mask, strict=True)) in heard
    assert b"SET NAMES" in heard
