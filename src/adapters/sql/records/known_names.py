"""Names and numbers in a ledger, for the completion of a shell.

To import SQLAlchemy takes longer than a person waits for TAB, so a file is read without it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

#: So many are given at most.
MOST: Final = 200

_LIKE: Final = "LIKE :begin ESCAPE '!'"
_NEWEST: Final = f"ORDER BY id DESC LIMIT {MOST}"

#: What to ask, by kind: a name or number, and what a shell may show beside it.
QUERIES: Final = {
    "schedules": f'SELECT name, description FROM "Scheduler" '  # noqa: S608 - ours
    f"WHERE system_id IS NULL AND name {_LIKE} "
    f"ORDER BY name LIMIT {MOST}",
    "tasks": f'SELECT DISTINCT task_name, NULL FROM "Scheduler" WHERE task_name {_LIKE} '  # noqa: S608
    f"ORDER BY task_name LIMIT {MOST}",
    "queues": f'SELECT DISTINCT queue, NULL FROM "Scheduler" WHERE queue {_LIKE} '  # noqa: S608
    f"ORDER BY queue LIMIT {MOST}",
    "nodes": f'SELECT name, role FROM "SchedulerNode" WHERE name {_LIKE} '  # noqa: S608
    f"ORDER BY seen_at DESC LIMIT {MOST}",
    "executions": f'SELECT id, state FROM "SchedulerExecution" {_NEWEST}',  # noqa: S608
    "failures": f'SELECT id, schedule_name FROM "FailedTask" WHERE resolved_at IS NULL {_NEWEST}',  # noqa: S608
    "replays": f'SELECT id, state FROM "Replay" {_NEWEST}',  # noqa: S608
}


def known_names(url: str, kind: str, begin: str) -> Sequence[tuple[str, str]]:
    """Give the names or numbers of a *kind* that begin so, each with a word about it."""
    like = "".join(f"!{each}" if each in "!%_" else each for each in begin) + "%"
    with _opened(url) as execute:
        found = execute(QUERIES[kind], {"begin": like} if ":begin" in QUERIES[kind] else {})
        rows = [(str(name), str(about or "")) for name, about in found if name is not None]
    return [(name, about) for name, about in rows if name.startswith(begin)]


@contextmanager
def _opened(url: str) -> Iterator[Callable[[str, dict[str, str]], Any]]:
    scheme, _, path = url.partition("://")
    if scheme == "sqlite":
        from sqlite3 import connect  # noqa: PLC0415 - a server's ledger does without
        from urllib.parse import quote  # noqa: PLC0415

        with closing(connect(f"file:{quote(path[1:])}?mode=ro", uri=True, timeout=0.2)) as ledger:
            yield ledger.execute
        return
    from sqlalchemy import text  # noqa: PLC0415 - as the module says

    from ..dialects import open_engine  # noqa: PLC0415

    engine = open_engine(url)
    quoted = engine.dialect.identifier_preparer.quote_identifier
    with engine.connect() as connection:
        yield lambda query, values: connection.execute(text(_quoted(query, quoted)), values)
    engine.dispose()


def _quoted(query: str, quote: Any) -> str:  # noqa: ANN401 - SQLAlchemy's own
    before, table, after = query.split('"')
    return f"{before}{quote(table)}{after}"
