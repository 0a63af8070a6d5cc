"""What a database must be and allow, for `cronhare doctor` and upgrades: versions and settings."""

from collections.abc import Callable
from typing import Final

from cronhare.domain.diagnosis.database import Need, Requirements
from cronhare.domain.diagnosis.finding import Severity

#: A thousand schedules with large params travel as one parameter.
SMALLEST_PACKET: Final = 16 * 2**20

#: What one process keeps open at most, several times over.
FEW_CONNECTIONS: Final = 50

_LAST_CLAIMS: Final = "the last claims may be gone, and their instants run twice"
_NOTHING: Final = "nothing can be claimed or recorded"


def _must(setting: str, holds: Callable[[str], bool], without: str, cure: str) -> Need:
    return Need(setting=setting, holds=holds, without=without, cure=cure)


def _should(setting: str, holds: Callable[[str], bool], without: str, cure: str) -> Need:
    return Need(setting=setting, holds=holds, without=without, cure=cure, severity=Severity.WARNING)


def _is(*allowed: str) -> Callable[[str], bool]:
    return lambda said: said in allowed


def _at_least(least: int) -> Callable[[str], bool]:
    return lambda said: not said.isdigit() or int(said) >= least


_MYSQL: Final = (
    _must(
        "read_only",
        lambda said: said.upper() in {"0", "OFF"},
        _NOTHING,
        "name the primary in CRON_DATABASE_URL, or `SET GLOBAL read_only = 0`",
    ),
    _should(
        "innodb_flush_log_at_trx_commit",
        _is("1"),
        f"after a power loss {_LAST_CLAIMS}",
        "`SET GLOBAL innodb_flush_log_at_trx_commit = 1`, and in the server's configuration",
    ),
    _should(
        "max_allowed_packet",
        _at_least(SMALLEST_PACKET),
        "a busy minute with large params may not fit into one statement",
        f"`SET GLOBAL max_allowed_packet = {SMALLEST_PACKET}`, and in its configuration",
    ),
)

_POSTGRESQL: Final = (
    _must(
        "server_encoding",
        _is("UTF8"),
        "params and output with other letters than its own cannot be kept",
        "make the database anew: `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0`",
    ),
    _must(
        "in_recovery",
        _is("off"),
        f"it is a standby: {_NOTHING}",
        "name the primary in CRON_DATABASE_URL, or all hosts: the primary is found",
    ),
    _must(
        "transaction_read_only",
        _is("off"),
        _NOTHING,
        "name the primary, or `ALTER DATABASE name RESET default_transaction_read_only`",
    ),
    _should(
        "synchronous_commit",
        lambda said: said != "off",
        f"after a crash {_LAST_CLAIMS}",
        "`ALTER DATABASE name SET synchronous_commit = on`",
    ),
    *(
        _must(
            setting,
            _is("on"),
            "a power loss may damage the whole database",
            f"`ALTER SYSTEM SET {setting} = on`, and reload",
        )
        for setting in ("fsync", "full_page_writes")
    ),
    _should(
        "max_connections",
        _at_least(FEW_CONNECTIONS),
        "some processes may find no connection: each keeps five, and up to fifteen",
        "raise max_connections, and restart the server",
    ),
)

_SQLITE: Final = (
    _should(
        "journal_mode",
        _is("wal"),
        "readers and the writer wait for each other",
        "keep the file on a local disk: WAL needs shared memory, which network disks lack",
    ),
)

_INNODB: Final = "ALTER TABLE name ENGINE = InnoDB"

#: By the product: the first versions that can do what the statements ask for.
REQUIREMENTS: Final = {
    "SQLite": Requirements(oldest=(3, 24), lack="knows no INSERT … ON CONFLICT", needs=_SQLITE),
    "MariaDB": Requirements(
        oldest=(10, 6),
        lack="knows no SKIP LOCKED: replicas would wait for each other",
        needs=_MYSQL,
        transactions=_INNODB,
    ),
    "MySQL": Requirements(
        oldest=(8, 0, 4),
        lack="knows no SKIP LOCKED or no JSON_TABLE",
        needs=_MYSQL,
        transactions=_INNODB,
    ),
    "PostgreSQL": Requirements(
        oldest=(14,), lack="was never tried: 14 is the oldest that is", needs=_POSTGRESQL
    ),
}
