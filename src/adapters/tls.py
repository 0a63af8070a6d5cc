"""What verifies a server's certificate and host name: of the broker, and of the database."""

import ssl
from pathlib import Path
from typing import Final

from cronhare.adapters.plain_files import read_plain_file
from cronhare.domain.addresses import Certificates

#: Bytes of a PEM file: a system's bundle of all CAs has a quarter of it.
LARGEST_PEM: Final = 2**20


class CertificatesUnusable(OSError, ValueError):
    """Files that are no certificates: at the start a wrong setting, later a link that fails."""


def verifying(certificates: Certificates) -> ssl.SSLContext:
    """Make what verifies a server, with the certificates that its address names.

    Raises:
        CertificatesUnusable: one of them cannot be read, or is none.
    """
    ca, certificate, key = certificates.options
    context = _trusting(ca, certificates.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificates.certificate is not None:
        for option, path in ((certificate, certificates.certificate), (key, certificates.key)):
            if path is not None:
                _read(option, path)  # OpenSSL would wait for a fifo
        try:
            context.load_cert_chain(
                certificates.certificate, certificates.key, password=_no_password
            )
        except (OSError, ValueError) as error:
            raise _unusable(f"{certificate} or {key}", _why(error)) from error
    return context


def _trusting(option: str, path: str | None) -> ssl.SSLContext:
    """Trust one CA, or those of the system if none is named."""
    if path is None:
        return ssl.create_default_context()
    # What stands between certificates may be in any script, and OpenSSL is given ASCII.
    pem = _read(option, path).decode("ascii", errors="ignore").strip()
    if not pem:  # to Python this would mean the system's own
        raise _unusable(f"{option} ({path})", "it is empty")
    try:
        return ssl.create_default_context(cadata=pem)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise _unusable(f"{option} ({path})", _why(error)) from error


def _read(option: str, path: str) -> bytes:
    try:
        content = read_plain_file(Path(path), most=LARGEST_PEM)
    except (OSError, ValueError) as error:
        raise _unusable(f"{option} ({path})", _why(error)) from error
    if len(content) > LARGEST_PEM:
        why = f"it is larger than {LARGEST_PEM // 2**20} MiB"
        raise _unusable(f"{option} ({path})", why)
    return content


def _no_password() -> str:
    """Refuse a key with a passphrase, which would be asked for at the terminal."""
    raise ValueError("the key has a passphrase, and nobody is there to type it")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)


def _unusable(where: str, why: str) -> CertificatesUnusable:
    return CertificatesUnusable(f"{where} cannot be read as PEM: {why}")
