"""Where the servers are: URLs taken apart. What is printed of them shows no secret.

Start reading at `server_url`.
"""

from .allowed_hosts import Address, AllowedHosts, is_public
from .apprise_address import LOCAL_SCHEMES, AppriseAddress
from .broker import BrokerServer
from .certificates import OF_BROKER, OF_LEDGER, Certificates, certificates_beside
from .ledger import LedgerFile, LedgerServer, Tls, parse_ledger
from .listen_address import ListenAddress
from .mail import MailServer, checked_address
from .server_url import Host, ServerUrl
from .web_address import WebAddress

__all__ = [
    "LOCAL_SCHEMES",
    "OF_BROKER",
    "OF_LEDGER",
    "Address",
    "AllowedHosts",
    "AppriseAddress",
    "BrokerServer",
    "Certificates",
    "Host",
    "LedgerFile",
    "LedgerServer",
    "ListenAddress",
    "MailServer",
    "ServerUrl",
    "Tls",
    "WebAddress",
    "certificates_beside",
    "checked_address",
    "is_public",
    "parse_ledger",
]
