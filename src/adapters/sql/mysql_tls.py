"""What verifies a database's certificate and host name."""

import ssl

from cronhare.adapters import tls
from cronhare.domain.addresses import LedgerServer


def verifying(server: LedgerServer) -> ssl.SSLContext:
    """Make what verifies the server, with the certificates that the address names.

    Raises:
        CertificatesUnusable: one of them cannot be read, or is none.
    """
    context = tls.verifying(server.certificates)
    # What MySQL makes for itself does not pass the strictest reading of RFC 5280.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
