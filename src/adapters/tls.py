"""The TLS contexts that verify a broker's or a database's certificate and host name."""

import ssl
from pathlib import Path
from typing import Final

from cronhare.adapters.addresses import Certificates
from cronhare.adapters.plain_files import read_plain_file

#: Bytes of a PEM file: a system's bundle of all CAs is a quarter of it.
LARGEST_PEM: Final = 2**20


class CertificatesUnusable(OSError, ValueError):
    """Files that are no certificates: a wrong setting at the start, a failed connection later."""


def client_context(certificates: Certificates) -> ssl.SSLContext:
    """Make a context that verifies a server, with the certificates that its address names.

    Raises:
        CertificatesUnusable: one of them cannot be read, or is none.
    """
    ca, certificate, key = certificates.options
    context = _trusting_context(ca, certificates.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificates.certificate is not None:
        for option, path in ((certificate, certificates.certificate), (key, certificates.key)):
            if path is not None:
                _read(option, path)  # OpenSSL would block on a fifo
        try:
            context.load_cert_chain(
                certificates.certificate, certificates.key, password=_no_password
            )
        except (OSError, ValueError) as error:
            raise _unusable(f"{certificate} or {key}", error) from error
    return context


def _trusting_context(option: str, path: str | None) -> ssl.SSLContext:
    """Trust one CA, or those of the system if none is named."""
    if path is None:
        return ssl.create_default_context()
    # The text between certificates may be in any script, and OpenSSL takes ASCII.
    pem = _read(option, path).decode("ascii", errors="ignore").strip()
    if not pem:  # Python would take the system's CAs
        raise _unusable(f"{option} ({path})", ValueError("it is empty"))
    try:
        return ssl.create_default_context(cadata=pem)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise _unusable(f"{option} ({path})", error) from error


def _read(option: str, path: str) -> bytes:
    try:
        content = read_plain_file(Path(path), most=LARGEST_PEM)
    except (OSError, ValueError) as error:
        raise _unusable(f"{option} ({path})", error) from error
    if len(content) > LARGEST_PEM:
        too_large = ValueError(f"it is larger than {LARGEST_PEM // 2**20} MiB")
        raise _unusable(f"{option} ({path})", too_large)
    return content


def _no_password() -> str:
    """Refuse a key with a passphrase: OpenSSL would ask for it at the terminal."""
    raise ValueError("the key has a passphrase, and nobody is there to type it")


def _unusable(where: str, error: Exception) -> CertificatesUnusable:
    why = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
    return CertificatesUnusable(f"{where} cannot be read as PEM: {why}")
