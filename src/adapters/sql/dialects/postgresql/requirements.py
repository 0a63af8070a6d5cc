"""What PostgreSQL must be for a ledger, as `cronhare doctor` judges it."""

from typing import Final

from cronhare.domain.diagnosis.database import ASKED_FOR, Need, Requirements
from cronhare.domain.diagnosis.finding import Severity

#: What one process keeps open at most, several times over.
FEW_CONNECTIONS: Final = 50

_NEEDS: Final = (
    Need(
        setting="transaction_isolation",
        holds=lambda said: said == "read committed",
        without="a replica would fail over what others do meanwhile",
        cure=ASKED_FOR,
    ),
    Need(
        setting="TimeZone",
        holds=lambda said: said.upper() in {"UTC", "ETC/UTC"},
        without="moments would shift",
        cure=ASKED_FOR,
    ),
    Need(
        setting="server_encoding",
        holds=lambda said: said == "UTF8",
        without="params and output with other letters than its own cannot be kept",
        cure="make the database anew: `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0`",
    ),
    Need(
        setting="in_recovery",
        holds=lambda said: said == "off",
        without="it is a standby: nothing can be claimed or recorded",
        cure="name the primary in CRON_DATABASE_URL, or all hosts: the primary is found",
    ),
    Need(
        setting="transaction_read_only",
        holds=lambda said: said == "off",
        without="nothing can be claimed or recorded",
        cure="name the primary, or `ALTER DATABASE name RESET default_transaction_read_only`",
    ),
    Need(
        setting="synchronous_commit",
        holds=lambda said: said != "off",
        without="after a crash the last claims may be gone, and their instants run twice",
        cure="`ALTER DATABASE name SET synchronous_commit = on`",
        severity=Severity.WARNING,
    ),
    Need(
        setting="fsync",
        holds=lambda said: said == "on",
        without="a power loss may damage the whole database",
        cure="`ALTER SYSTEM SET fsync = on`, and reload",
    ),
    Need(
        setting="full_page_writes",
        holds=lambda said: said == "on",
        without="a power loss may damage the whole database",
        cure="`ALTER SYSTEM SET full_page_writes = on`, and reload",
    ),
    Need(
        setting="max_connections",
        holds=lambda said: not said.isdigit() or int(said) >= FEW_CONNECTIONS,
        without="some processes may find no connection: each keeps five, and up to fifteen",
        cure="raise max_connections, and restart the server",
        severity=Severity.WARNING,
    ),
)

REQUIREMENTS: Final = Requirements(
    oldest=(14,), lack="was never tried: 14 is the oldest that is", needs=_NEEDS
)
