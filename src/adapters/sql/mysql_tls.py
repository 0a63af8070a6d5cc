"""What verifies a database's certificate and host name."""

import ssl

from cronhare.domain.addresses import LedgerServer


def verifying(server: LedgerServer) -> ssl.SSLContext:
    """Make what verifies the server, with the certificates that the address names.

    Raises:
        ValueError: one of them cannot be read, or is none.
    """
    try:
        context = ssl.create_default_context(cafile=server.ssl_ca)
    except OSError as error:  # an SSLError is one
        raise ValueError(_unreadable("ssl_ca", server.ssl_ca, error)) from error
    # What MySQL makes for itself does not pass the strictest reading of RFC 5280.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if server.ssl_cert is not None:
        try:
            context.load_cert_chain(server.ssl_cert, server.ssl_key, password=_no_password)
        except (OSError, ValueError) as error:
            raise ValueError(_unreadable("ssl_cert or ssl_key", None, error)) from error
    return context


def _no_password() -> str:
    """Refuse a key with a passphrase, which would be asked for at the terminal."""
    raise ValueError("the key has a passphrase, and nobody is there to type it")


def _unreadable(option: str, path: str | None, error: Exception) -> str:
    why = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
    return f"{option}{f' ({path})' if path else ''} cannot be read as PEM: {why}"
