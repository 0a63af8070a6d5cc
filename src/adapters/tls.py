"""What verifies a server's certificate and host name: of the broker, and of the database."""

import ssl

from cronhare.domain.addresses import Certificates


class CertificatesUnusable(OSError, ValueError):
    """Files that are no certificates: at the start a wrong setting, later a link that fails."""


def verifying(certificates: Certificates) -> ssl.SSLContext:
    """Make what verifies a server, with the certificates that its address names.

    Raises:
        CertificatesUnusable: one of them cannot be read, or is none.
    """
    ca, certificate, key = certificates.options
    try:
        context = ssl.create_default_context(cafile=certificates.ca)
    except OSError as error:  # an SSLError is one
        raise CertificatesUnusable(_unreadable(ca, certificates.ca, error)) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificates.certificate is not None:
        try:
            context.load_cert_chain(
                certificates.certificate, certificates.key, password=_no_password
            )
        except (OSError, ValueError) as error:
            raise CertificatesUnusable(
                _unreadable(f"{certificate} or {key}", None, error)
            ) from error
    return context


def _no_password() -> str:
    """Refuse a key with a passphrase, which would be asked for at the terminal."""
    raise ValueError("the key has a passphrase, and nobody is there to type it")


def _unreadable(option: str, path: str | None, error: Exception) -> str:
    why = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
    return f"{option}{f' ({path})' if path else ''} cannot be read as PEM: {why}"
