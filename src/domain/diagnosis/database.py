"""The database behind the ledger: its kind, its version, and what our sessions must have."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from cronhare.domain.messages import LARGEST_ID

from .finding import Finding, Severity, named
from .link import Link, judge_link
from .servers import DATABASE, version_of

SUBJECT = DATABASE.subject

MARIADB, MYSQL, SQLITE = "MariaDB", "MySQL", "SQLite"

#: The first versions that can do what the statements ask for.
OLDEST: Mapping[str, tuple[tuple[int, ...], str]] = {
    MARIADB: ((10, 6), "knows no SKIP LOCKED: replicas would wait for each other"),
    MYSQL: ((8, 0, 4), "knows no SKIP LOCKED or no JSON_TABLE"),
    SQLITE: ((3, 24), "knows no INSERT … ON CONFLICT"),
}

#: A thousand schedules with large params travel as one parameter.
SMALLEST_PACKET = 16 * 2**20


@attrs.frozen(kw_only=True)
class DatabaseFacts:
    """What a session of ours sees.

    *settings* are the database's own names and words. *plain_tables* are tables of ours in a
    storage engine without transactions. *exhausted* are those whose last number is given away.
    """

    product: str
    version: str
    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    plain_tables: Sequence[str] = ()
    exhausted: Sequence[str] = ()
    link: Link | None = None


@attrs.frozen(kw_only=True)
class _Need:
    """A setting that must be, what happens without it, and how to have it."""

    setting: str
    holds: Callable[[str], bool]
    without: str
    cure: str
    severity: Severity = Severity.ERROR


_SESSION = (
    "each session of ours asks for it: see what changes it between (a proxy, an init_connect)"
)

_SERVER_NEEDS = (
    _Need(
        setting="transaction_isolation",
        holds=lambda said: said.upper() == "READ-COMMITTED",
        without="claims may deadlock, and decide by what is outdated",
        cure=_SESSION,
    ),
    _Need(
        setting="sql_mode",
        holds=lambda said: bool({"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & {*said.split(",")}),
        without="it is not strict: what does not fit is cut off without a word",
        cure=_SESSION,
    ),
    _Need(
        setting="time_zone",
        holds=lambda said: said in {"+00:00", "UTC"},
        without="moments would shift",
        cure=_SESSION,
    ),
    _Need(
        setting="character_set_connection",
        holds=lambda said: said.startswith("utf8mb4"),
        without="params and output with an emoji cannot be kept",
        cure=_SESSION,
    ),
    _Need(
        setting="read_only",
        holds=lambda said: said.upper() in {"0", "OFF"},
        without="nothing can be claimed or recorded",
        cure="name the primary in CRON_DATABASE_URL, or `SET GLOBAL read_only = 0`",
    ),
    _Need(
        setting="innodb_flush_log_at_trx_commit",
        holds=lambda said: said == "1",
        without="after a power loss the last claims may be gone, and their instants run twice",
        cure="`SET GLOBAL innodb_flush_log_at_trx_commit = 1`, and in the server's configuration",
        severity=Severity.WARNING,
    ),
    _Need(
        setting="max_allowed_packet",
        holds=lambda said: not said.isdigit() or int(said) >= SMALLEST_PACKET,
        without="a busy minute with large params may not fit into one statement",
        cure=f"`SET GLOBAL max_allowed_packet = {SMALLEST_PACKET}`, and in its configuration",
        severity=Severity.WARNING,
    ),
)

_FILE_NEEDS = (
    _Need(
        setting="journal_mode",
        holds=lambda said: said == "wal",
        without="readers and the writer wait for each other",
        cure="keep the file on a local disk: WAL needs shared memory, which network disks lack",
        severity=Severity.WARNING,
    ),
    _Need(
        setting="synchronous",
        holds=lambda said: said in {"2", "3"},
        without="after a power loss the last claims may be gone, and their instants run twice",
        cure=_SESSION,
    ),
    _Need(
        setting="foreign_keys",
        holds=lambda said: said == "1",
        without="deleted rows would leave others behind",
        cure=_SESSION,
    ),
)


def judge_database(facts: DatabaseFacts) -> Iterator[Finding]:
    """Judge version and settings. A setting that could not be read is not judged."""
    yield _version(facts)
    if facts.link is not None:
        yield judge_link(facts.link, DATABASE)
    needs = _FILE_NEEDS if facts.product == SQLITE else _SERVER_NEEDS
    read = [need for need in needs if need.setting in facts.settings]
    broken = [need for need in read if not need.holds(facts.settings[need.setting])]
    for need in broken:
        said = facts.settings[need.setting] or "empty"
        what = f"{need.setting} is {said}: {need.without}"
        yield Finding(need.severity, SUBJECT, what, need.cure)
    if read and not broken:
        shown = ", ".join(need.setting for need in read)
        yield Finding(Severity.OK, SUBJECT, f"Its settings are as they must be: {shown}")
    if facts.plain_tables:
        yield Finding(
            Severity.ERROR,
            SUBJECT,
            f"Tables without transactions: {named(facts.plain_tables)}",
            "for each of them: `ALTER TABLE name ENGINE = InnoDB`",
        )
    for table in facts.exhausted:
        yield _exhausted(table, in_file=facts.product == SQLITE)


def _exhausted(table: str, *, in_file: bool) -> Finding:
    anew = (
        f"UPDATE sqlite_sequence SET seq = (SELECT MAX(id) FROM {table}) WHERE name = '{table}'"  # noqa: S608
        if in_file
        else f"ALTER TABLE {table} AUTO_INCREMENT = 1"
    )
    return Finding(
        Severity.ERROR,
        SUBJECT,
        f"Somebody gave a row of {table} the last number that there is ({LARGEST_ID}): it takes no "
        "other row",
        f"`DELETE FROM {table} WHERE id = {LARGEST_ID}`, then `{anew}`",  # noqa: S608
    )


def _version(facts: DatabaseFacts) -> Finding:
    name, version = f"{facts.product} {facts.version}", version_of(facts.version)
    oldest, why = OLDEST.get(facts.product, ((), ""))
    if version and version < oldest:
        wanted = ".".join(map(str, oldest))
        what, cure = f"{name} {why}", f"upgrade it to {facts.product} {wanted} or newer"
        return Finding(Severity.ERROR, SUBJECT, what, cure)
    if not oldest or not version:
        what, cure = f"{name} was never tried", "use MariaDB 10.6+, MySQL 8.0+ or SQLite"
        return Finding(Severity.WARNING, SUBJECT, what, cure)
    return Finding(Severity.OK, SUBJECT, name)
