"""Where the servers are: URLs taken apart. What is printed of them shows no secret.

Start reading at `server_url`.
"""

from .broker import BrokerServer
from .certificates import OF_BROKER, OF_LEDGER, Certificates, certificates_beside
from .ledger import LedgerFile, LedgerServer, Tls, parse_ledger
from .server_url import Host, ServerUrl

__all__ = [
    "OF_BROKER",
    "OF_LEDGER",
    "BrokerServer",
    "Certificates",
    "Host",
    "LedgerFile",
    "LedgerServer",
    "ServerUrl",
    "Tls",
    "certificates_beside",
    "parse_ledger",
]
