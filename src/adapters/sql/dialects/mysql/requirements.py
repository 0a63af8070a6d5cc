"""What MySQL and MariaDB must be for a ledger, as `cronhare doctor` judges it."""

from typing import Final

from cronhare.domain.diagnosis.database import ASKED_FOR, Need, Requirements
from cronhare.domain.diagnosis.finding import Severity

#: A thousand schedules with large params travel as one parameter.
SMALLEST_PACKET: Final = 16 * 2**20

_TRANSACTIONS: Final = "ALTER TABLE name ENGINE = InnoDB"

_NEEDS: Final = (
    Need(
        setting="transaction_isolation",
        holds=lambda said: said.upper() == "READ-COMMITTED",
        without="claims may deadlock, and decide by what is outdated",
        cure=ASKED_FOR,
    ),
    Need(
        setting="sql_mode",
        holds=lambda said: bool({"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & {*said.split(",")}),
        without="it is not strict: what does not fit is cut off without a word",
        cure=ASKED_FOR,
    ),
    Need(
        setting="time_zone",
        holds=lambda said: said in {"+00:00", "UTC"},
        without="moments would shift",
        cure=ASKED_FOR,
    ),
    Need(
        setting="character_set_connection",
        holds=lambda said: said.startswith("utf8mb4"),
        without="params and output with an emoji cannot be kept",
        cure=ASKED_FOR,
    ),
    Need(
        setting="read_only",
        holds=lambda said: said.upper() in {"0", "OFF"},
        without="nothing can be claimed or recorded",
        cure="name the primary in CRON_DATABASE_URL, or `SET GLOBAL read_only = 0`",
    ),
    Need(
        setting="innodb_flush_log_at_trx_commit",
        holds=lambda said: said == "1",
        without="after a power loss the last claims may be gone, and their instants run twice",
        cure="`SET GLOBAL innodb_flush_log_at_trx_commit = 1`, and in the server's configuration",
        severity=Severity.WARNING,
    ),
    Need(
        setting="max_allowed_packet",
        holds=lambda said: not said.isdigit() or int(said) >= SMALLEST_PACKET,
        without="a busy minute with large params may not fit into one statement",
        cure=f"`SET GLOBAL max_allowed_packet = {SMALLEST_PACKET}`, and in its configuration",
        severity=Severity.WARNING,
    ),
)

#: By the product: the first versions that can do what the statements ask for.
REQUIREMENTS: Final = {
    "MariaDB": Requirements(
        oldest=(10, 6),
        lack="knows no SKIP LOCKED: replicas would wait for each other",
        needs=_NEEDS,
        transactions=_TRANSACTIONS,
    ),
    "MySQL": Requirements(
        oldest=(8, 0, 4),
        lack="knows no SKIP LOCKED or no JSON_TABLE",
        needs=_NEEDS,
        transactions=_TRANSACTIONS,
    ),
}
