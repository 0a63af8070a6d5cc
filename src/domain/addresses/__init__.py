"""Where the servers are: URLs taken apart. What is printed of them shows no secret.

Start reading at `server_url`.
"""

from .certificates import Certificates
from .ledger import LedgerFile, LedgerServer, Tls, parse_ledger
from .server_url import Host, ServerUrl

__all__ = ["Certificates", "Host", "LedgerFile", "LedgerServer", "ServerUrl", "Tls", "parse_ledger"]
