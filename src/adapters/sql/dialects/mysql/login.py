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


class _Refusing:
    """Stands for a plugin in the driver's exchange with a server, and sends nothing."""

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


class _FastOnly(_Refusing):
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
    **dict.fromkeys(("mysql_clear_password", "dialog", _SHA256), _Refusing),
    "caching_sha2_password": _FastOnly,
}


class TlsAsOffered(pymysql.Connection):
    """A session of the driver that reads no trusted roots for TLS that is only offered.

    Nothing is verified there, and to read them takes some 50 ms, longer than all the rest of a
    connection. Should the driver call this otherwise one day, it is only as slow as it was.
    """

    def _create_ssl_ctx(self, sslp: object) -> ssl.SSLContext:
        if isinstance(sslp, ssl.SSLContext):
            return sslp
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


class GuardedLogin(TlsAsOffered):
    """A session that gives the password to no greeting: plugins are asked, and may refuse.

    To a greeting with this plugin the driver answers with the password, whatever plugins it was
    given. So it takes it for another, and the server says once more what it wants.
    """

    _refused_greeting = False

    def _get_server_information(self) -> None:
        super()._get_server_information()  # type: ignore[misc]
        if vars(self)["_auth_plugin_name"] == _SHA256:
            vars(self)["_auth_plugin_name"] = "mysql_native_password"
            self._refused_greeting = _SHA256 in vars(self)["_auth_plugin_map"]

    def _request_authentication(self) -> None:
        try:
            super()._request_authentication()  # type: ignore[misc]
        except pymysql.OperationalError as error:
            said, *values = error.args
            if isinstance(said, int):
                raise
            if self._refused_greeting:  # it goes on as if it had been told what it wants
                _Refusing(self).authenticate(None)
            # The driver's own errors have no number, and leave some of their values out.
            text = str(said) % tuple(values)
            raise pymysql.OperationalError(CR.CR_AUTH_PLUGIN_ERR, text) from error
