"""What PostgreSQL's errors mean, by their SQLSTATE, and what to do."""

import re
from collections.abc import Sequence
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cronhare.domain.diagnosis.servers import Cause

from ...dialect import Meaning

DEADLOCK: Final = "40P01"
LOCK_NOT_AVAILABLE: Final = "55P03"
UNIQUE_VIOLATION: Final = "23505"
READ_ONLY: Final = "25006"
NO_NUMBER_LEFT: Final = "2200H"

#: What a state means, by how it begins. The transaction is rolled back by the server, or by us
#: after any error.
_MEANINGS: Final = {
    "40": Meaning.TAKEN_BACK,
    LOCK_NOT_AVAILABLE: Meaning.LOCKED,
    UNIQUE_VIOLATION: Meaning.DUPLICATE,
    # The server was shut down or restarted, or it has ended our session.
    **dict.fromkeys(("08", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04"), Meaning.LOST),
    READ_ONLY: Meaning.NO_WRITES,
    "53": Meaning.OUTAGE,  # a disk or a memory is full, or there are too many sessions
    NO_NUMBER_LEFT: Meaning.OUTAGE,
    "57014": Meaning.OUTAGE,  # it took too long, or somebody cancelled it: no row is to blame
    **dict.fromkeys(("42P01", "42703"), Meaning.MISSING),  # no such table, no such column
    **dict.fromkeys(("22", "23", "P0001"), Meaning.REFUSED),  # the last is a trigger's RAISE
}

_CAUSES: Final = {"28": Cause.LOGIN, "3D000": Cause.PLACE, "42501": Cause.PLACE}

_ADVICE: Final = {
    DEADLOCK: "it met others again and again: look at the server's log",
    LOCK_NOT_AVAILABLE: "somebody keeps rows or a table locked: look in pg_stat_activity for a "
    "transaction that was left open",
    NO_NUMBER_LEFT: "a table has given away its last number: set its sequence back by setval",
    READ_ONLY: "the server only reads: name the primary in the URL",
    "28": "the server refuses this user or password: look at the URL, and at pg_hba.conf",
    "3D000": "there is no such database: CREATE DATABASE it",
    "42501": "this user lacks a privilege: GRANT what its role needs (operators.md, Rights)",
    "42601": "the server does not understand us: PostgreSQL 14 is needed, or newer",
    "53100": "the server's disk is full: make room, and it goes on by itself",
    "53300": "the server has too many connections: raise max_connections",
    "57P03": "the server starts or stops just now",
}

#: What a server says to a login has no state in the driver: it is read from the sentence.
_STATES_SAID: Final = {
    "password authentication failed|no password supplied": "28P01",
    "no pg_hba.conf entry|authentication failed|is not permitted to log in": "28000",
    'role "[^"]*" does not exist': "28000",
    "too many|remaining connection slots": "53300",
    "the database system is": "57P03",
    "session is read-only": READ_ONLY,
    'database "[^"]*" does not exist': "3D000",
}

_CANNOT_REACH: Final = re.compile(
    r"could not translate|Name or service|Connection refused|No route|Network is unreachable|"
    r"No such file|timeout expired|could not connect|failed to resolve"
)

_TLS_TROUBLE: Final = {
    "certificate verify failed|does not match host name": "its certificate is refused. Name the CA "
    "that signed it by ?ssl_ca=/path/ca.pem, and the server as its certificate does",
    "server does not support SSL|SSL error": "the server speaks no TLS that we accept: turn it on "
    "there (ssl, ssl_cert_file, ssl_key_file), or add ?tls=off to the URL if the network between "
    "is your own",
    "authentication method requirement": "what answers there asks for the password in clear text, "
    "and could be anybody: have it verified (?ssl_ca=/path/ca.pem), or name its socket "
    "(?unix_socket=)",
}

#: A user in a sentence of the server's: a mistyped URL may have a password there.
_USER: Final = re.compile(r'((?:user|role) )"[^"]*"', re.IGNORECASE)


def state_of(error: BaseException | None) -> str:
    """Read an error's SQLSTATE; empty where it has none, as of a connection that is gone."""
    original = _original(error)
    if not isinstance(original, psycopg.Error):
        return ""
    return original.sqlstate or _first_found(_STATES_SAID, str(original)) or ""


def meaning_of(error: BaseException | None) -> Meaning:
    if state := state_of(error):
        found = (each for known, each in _MEANINGS.items() if state.startswith(known))
        return next(found, Meaning.FAILED)
    is_lost = isinstance(_original(error), psycopg.OperationalError | psycopg.InterfaceError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    )
    return Meaning.LOST if is_lost else Meaning.OUTAGE


def cause_of(error: BaseException | None) -> tuple[Cause, str]:
    if _is_absent(error):
        return Cause.ABSENT, ""
    state = state_of(error)
    cause = next((c for known, c in _CAUSES.items() if state.startswith(known)), Cause.OTHER)
    return cause, "`CREATE DATABASE name OWNER user`" if cause is Cause.PLACE else ""


def explain(error: SQLAlchemyError) -> str:
    if isinstance(error, PoolTimeout):
        return f"all connections of this process are in use ({error})"
    said, state = said_by(error), state_of(error)
    if trouble := _first_found(_TLS_TROUBLE, said):
        return f"{trouble} ({said})"
    advice = next((each for known, each in _ADVICE.items() if state.startswith(known)), None)
    if advice is None and _is_absent(error):
        advice = "the server cannot be reached: see that it runs, and that the URL names it"
    elif advice is None and meaning_of(error) is Meaning.LOST:
        advice = "the connection was lost, or the server did not answer in time"
    told = f"{state} {said}".strip()
    return f"{advice} ({told})" if advice else told


def said_by(error: BaseException | None) -> str:
    """Give the server's or the driver's own words, without the user."""
    words = " ".join(str(_original(error) or "").split())
    return _USER.sub(r"\1", words).replace("  ", " ")


def none_usable(refusals: Sequence[Exception], text: str) -> Exception:  # noqa: ARG001
    """Make one error of several hosts': what it is is read from its sentence."""
    return psycopg.OperationalError(text)


def _original(error: BaseException | None) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error


def _is_absent(error: BaseException | None) -> bool:
    return not state_of(error) and _CANNOT_REACH.search(said_by(error)) is not None


def _first_found(known: dict[str, str], said: str) -> str | None:
    return next((each for pattern, each in known.items() if re.search(pattern, said)), None)
