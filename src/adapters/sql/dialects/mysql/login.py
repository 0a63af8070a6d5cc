"""The login: TLS as it is offered, and no password for a server that has proved nothing."""

import ssl
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pymysql
from pymysql import _auth
from pymysql.constants import CR

Plugin: TypeAlias = "Callable[[pymysql.Connection[Any]], Any]"

_SHA256: Final = "sha256_password"
_FAST: Final = b"\1\3"


class Refusing:
    """Stands for a plugin that sends the password, and sends nothing."""

    def __init__(self, session: "pymysql.Connection[Any]") -> None:
        """Keep the session that the driver logs in."""
        self._session: Any = session

    def authenticate(self, _packet: Any) -> Any:  # noqa: ANN401 - the driver's own
        """Send nothing.

        Raises:
            pymysql.OperationalError: always.
        """
        text = (
            "what answers there asks for the password in clear text or under a key of its own, and "
            "could be anybody: have it verified (?ssl_ca=/path/ca.pem), or name its socket "
            "(?unix_socket=). MySQL asks so for a caching_sha2_password that is not in its cache, "
            "or is not this user's"
        )
        raise pymysql.OperationalError(CR.CR_AUTH_PLUGIN_ERR, text)


class FastOnly(Refusing):
    """Proves by a hash that the password is known; a server that has it in its cache is content."""

    def authenticate(self, packet: Any) -> Any:  # noqa: ANN401 - likewise
        """Answer the server, and give what it says to that.

        Raises:
            pymysql.OperationalError: it is not content, and asks for the password.
        """
        session = self._session
        if packet.is_auth_switch_request():
            salt = packet.read_all().removesuffix(b"\0")
            session.write_packet(_auth.scramble_caching_sha2(session.password, salt))
        elif packet.get_all_data() != _FAST:
            super().authenticate(packet)
        return session._read_packet()  # noqa: SLF001 - it has no other way


#: Plugins by their names. While the server is down, any user of its machine can answer at its port,
#: and a machine in between at any time; with a certificate, or an RSA key, of its own.
REFUSING_THE_PASSWORD: Final[dict[str, Plugin]] = {
    "mysql_clear_password": Refusing,
    "dialog": Refusing,
    _SHA256: Refusing,
    "caching_sha2_password": FastOnly,
}


class Session(pymysql.Connection):
    """A session of the driver, whose plugins are asked for any password."""

    def _get_server_information(self) -> None:
        """Read the greeting. To this plugin's the driver would answer with the password.

        It does so whatever plugins it was given; taken for another, the server says once more
        what it wants.
        """
        super()._get_server_information()  # type: ignore[misc]
        if vars(self)["_auth_plugin_name"] == _SHA256:
            vars(self)["_auth_plugin_name"] = "mysql_native_password"

    def _create_ssl_ctx(self, sslp: object) -> ssl.SSLContext:
        """Read no trusted roots, which takes 50 ms, for TLS that is offered and not verified."""
        if isinstance(sslp, ssl.SSLContext):
            return sslp
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
