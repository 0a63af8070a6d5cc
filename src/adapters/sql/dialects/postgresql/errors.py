"""What PostgreSQL's errors mean, by their SQLSTATE, and what to do."""

import re
from collections.abc import Sequence
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cronhare.domain.diagnosis.servers import Cause

from ...dialect import Meaning

DEADLOCK: Final = "40P01"
LOCK_NOT_AVAILABLE: Final = "55P03"
UNIQUE_VIOLATION: Final = "23505"
READ_ONLY: Final = "25006"
NO_NUMBER_LEFT: Final = "2200H"

#: What a state means, by how it begins. The transaction is taken back by the server, or by the
#: rollback that follows every error here. A duplicate is what somebody else wrote in the same
#: moment: the next look sees it.
_MEANINGS: Final = {
    "40": Meaning.TAKEN_BACK,
    LOCK_NOT_AVAILABLE: Meaning.LOCKED,
    UNIQUE_VIOLATION: Meaning.DUPLICATE,
    # The server was shut down or restarted, or it has ended our session.
    **dict.fromkeys(("08", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04"), Meaning.LOST),
    READ_ONLY: Meaning.READ_ONLY,
    "53": Meaning.OUTAGE,  # a disk or a memory is full, or there are too many sessions
    NO_NUMBER_LEFT: Meaning.OUTAGE,
    **dict.fromkeys(("42P01", "42703"), Meaning.MISSING),  # no such table, no such column
    **dict.fromkeys(("22", "23", "P0001"), Meaning.REFUSED),  # the last is a trigger's RAISE
}

_CAUSES: Final = {"28": Cause.LOGIN, "3D000": Cause.PLACE, "42501": Cause.PLACE}

_USER: Final = re.compile(r'((?:user|role) )"[^"]*"', re.IGNORECASE)

_ADVICE: Final = {
    DEADLOCK: "it met others again and again: look at the server's log",
    LOCK_NOT_AVAILABLE: "somebody keeps rows or a table locked: look in pg_stat_activity for a "
    "transaction that was left open",
    NO_NUMBER_LEFT: "somebody gave a row the last number that there is: `cronhare doctor` tells",
    READ_ONLY: "the server only reads: name the primary in the URL",
    "28": "the server refuses this user or password: look at the URL, and at pg_hba.conf",
    "3D000": "there is no such database: CREATE DATABASE it",
    "42501": "this user lacks a privilege: GRANT what its role needs (operators.md, Rights)",
    "42601": "the server does not understand us: PostgreSQL 14 is needed, or newer",
    "53100": "the server's disk is full: make room, and it goes on by itself",
    "53300": "the server has too many connections: raise max_connections",
    "57P03": "the server starts or stops just now",
}

_CANNOT_REACH: Final = re.compile(
    r"could not translate|Name or service|Connection refused|No route|Network is unreachable|"
    r"No such file|timeout expired|could not connect|failed to resolve"
)


def state_of(error: BaseException | None) -> str:
    """Read an error's SQLSTATE; empty where it has none, as of a connection that is gone.

    What a server says to a login has none in the driver: it is read from its sentence.
    """
    if isinstance(error, DBAPIError):
        error = error.orig
    if not isinstance(error, psycopg.Error):
        return ""
    return error.sqlstate or _state_said(str(error))


def _state_said(said: str) -> str:
    for words, state in (
        ("password authentication failed", "28P01"),
        ("no pg_hba.conf entry", "28000"),
        ("authentication failed", "28000"),
        ("no password supplied", "28P01"),
        ("is not permitted to log in", "28000"),
        ("too many", "53300"),
        ("remaining connection slots", "53300"),
        ("the database system is", "57P03"),
        ("session is read-only", READ_ONLY),
    ):
        if words in said:
            return state
    if re.search(r'database "[^"]*" does not exist', said):
        return "3D000"
    if re.search(r'role "[^"]*" does not exist', said):
        return "28000"
    return ""


def meaning_of(error: BaseException | None) -> Meaning:
    state = state_of(error)
    if state:
        found = (each for known, each in _MEANINGS.items() if state.startswith(known))
        return next(found, Meaning.FAILED)
    original = error.orig if isinstance(error, DBAPIError) else error
    is_lost = isinstance(original, psycopg.OperationalError | psycopg.InterfaceError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    )
    return Meaning.LOST if is_lost else Meaning.OUTAGE


def is_lost(error: BaseException | None) -> bool:
    return meaning_of(error) is Meaning.LOST


def is_absent(error: BaseException | None) -> bool:
    """Tell that nobody answers where a server should be."""
    return not state_of(error) and _CANNOT_REACH.search(said_by(error)) is not None


def cause_of(error: BaseException | None) -> Cause:
    if is_absent(error):
        return Cause.ABSENT
    state = state_of(error)
    return next((c for known, c in _CAUSES.items() if state.startswith(known)), Cause.OTHER)


def hint(cause: Cause) -> str:
    return "`CREATE DATABASE name OWNER user`" if cause is Cause.PLACE else ""


def explain(error: BaseException) -> str:
    if isinstance(error, PoolTimeout):
        return f"all connections of this process are in use ({error})"
    said = said_by(error)
    if trouble := tls_trouble(said):
        return f"{trouble} ({said})"
    state = state_of(error)
    advice = next((each for known, each in _ADVICE.items() if state.startswith(known)), None)
    if not state and is_absent(error):
        advice = "the server cannot be reached: see that it runs, and that the URL names it"
    elif advice is None and is_lost(error):
        advice = "the connection was lost, or the server did not answer in time"
    told = f"{state} {said}".strip()
    return f"{advice} ({told})" if advice else told


def said_by(error: BaseException | None) -> str:
    """Give what was said, without the user: where passwords are mistyped, it may be one."""
    original = error.orig if isinstance(error, DBAPIError) else error
    lines = (line.strip() for line in str(original or "").splitlines())
    return _USER.sub(r"\1", " ".join(line for line in lines if line)).replace("  ", " ")


def none_usable(refusals: Sequence[Exception], text: str) -> Exception:  # noqa: ARG001
    """Make one error: what a server says to a login is read from its sentence."""
    return psycopg.OperationalError(text)


def tls_trouble(said: str) -> str | None:
    """Say what is wrong with the encryption of a link, and what to do; None if that is not it."""
    if "certificate verify failed" in said or "does not match host name" in said:
        return (
            "its certificate is refused. Name the CA that signed it by ?ssl_ca=/path/ca.pem, and "
            "the server as its certificate does"
        )
    if "server does not support SSL" in said or "SSL error" in said:
        return (
            "the server speaks no TLS that we accept: turn it on there (ssl, ssl_cert_file, "
            "ssl_key_file), or add ?tls=off to the URL if the network between is your own"
        )
    if "authentication method requirement" in said:
        return (
            "what answers there asks for the password in clear text, and could be anybody: have it "
            "verified (?ssl_ca=/path/ca.pem), or name its socket (?unix_socket=)"
        )
    return None
