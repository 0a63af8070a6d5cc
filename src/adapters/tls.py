"""The TLS contexts that verify a broker's or a database's certificate and host name."""

import ssl
from pathlib import Path

from cronhare.adapters.addresses import Certificates


class CertificatesUnusable(OSError, ValueError):
    """Files that are no certificates: a wrong setting at the start, a failed connection later."""


def client_context(certificates: Certificates) -> ssl.SSLContext:
    """Make a context that verifies a server, with the certificates that its address names.

    Raises:
        CertificatesUnusable: one of them cannot be read, or is none.
    """
    ca, certificate, key = certificates.options
    where = f"{ca} ({certificates.ca})"
    try:
        context = ssl.create_default_context(cadata=_read(certificates.ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if certificates.certificate is not None:
            where = f"{certificate} or {key}"
            context.load_cert_chain(
                certificates.certificate, certificates.key, password=_no_password
            )
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        why = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        raise CertificatesUnusable(f"{where} cannot be read as PEM: {why}") from error
    return context


def _read(ca: str | None) -> str | None:
    if ca is None:
        return None
    # The text between certificates may be in any script, and OpenSSL takes ASCII.
    pem = Path(ca).read_bytes().decode("ascii", errors="ignore").strip()
    if not pem:  # Python would take the system's CAs
        raise ValueError("it is empty")
    return pem


def _no_password() -> str:
    """Refuse a key with a passphrase: OpenSSL would ask for it at the terminal."""
    raise ValueError("the key has a passphrase, and nobody is there to type it")
