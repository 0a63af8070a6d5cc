"""What verifies a database's certificate and host name, or takes TLS as it is offered."""

import ssl

import pymysql

from cronhare.adapters import tls
from cronhare.domain.addresses import LedgerServer


def verifying(server: LedgerServer) -> ssl.SSLContext:
    """Make what verifies the server, with the certificates that the address names.

    Raises:
        CertificatesUnusable: one of them cannot be read, or is none.
    """
    context = tls.client_context(server.certificates)
    # What MySQL makes for itself does not pass the strictest reading of RFC 5280.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class TlsAsOffered(pymysql.Connection):
    """A session of the driver that takes TLS which is offered without reading the trusted roots.

    Nothing is verified there, and to read them takes longer than all the rest of a connection:
    some 50 ms. Should the driver call this otherwise one day, it is only as slow as it was.
    """

    def _create_ssl_ctx(self, sslp: object) -> ssl.SSLContext:
        if isinstance(sslp, ssl.SSLContext):
            return sslp
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
