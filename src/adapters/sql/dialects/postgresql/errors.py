"""What PostgreSQL's errors mean, by their SQLSTATE, and what to do."""

import re
from collections.abc import Sequence
from typing import Final

import psycopg
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cronhare.domain.diagnosis.servers import Cause

SERIALIZATION_FAILURE: Final = "40001"
DEADLOCK: Final = "40P01"
LOCK_NOT_AVAILABLE: Final = "55P03"
UNIQUE_VIOLATION: Final = "23505"
READ_ONLY: Final = "25006"
NO_NUMBER_LEFT: Final = "2200H"

#: The transaction is taken back, by the server or by the rollback that follows every error here.
#: A duplicate is what somebody else wrote in the same moment: the next look sees it.
_TAKEN_BACK: Final = frozenset(
    {SERIALIZATION_FAILURE, "40003", DEADLOCK, LOCK_NOT_AVAILABLE, UNIQUE_VIOLATION}
)

#: The connection is gone: the server was shut down or restarted, or it has ended our session.
_LOST: Final = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04")

#: It could not be had; or the trigger of a row says so: of a table of its own, or as it pleases.
#: No privilege, no login, no database, nothing left, only reading, cancelled, in use, and what the
#: server calls a fault of its own or of its disk.
_MAY_BE_A_TRIGGERS: Final = (
    *("42501", "28", "3D000", "53", READ_ONLY, "57014", "55000", "55006", "0A000", "58", "XX"),
    NO_NUMBER_LEFT,
)

#: No such table, no such column.
_MISSING: Final = frozenset({"42P01", "42703"})

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


def is_lost(error: BaseException | None) -> bool:
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return True
        error = error.orig
    state = state_of(error)
    if state:
        return state.startswith(_LOST)
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def is_absent(error: BaseException | None) -> bool:
    """Tell that nobody answers where a server should be."""
    return not state_of(error) and _CANNOT_REACH.search(said_by(error)) is not None


def is_read_only(error: BaseException | None) -> bool:
    return state_of(error) == READ_ONLY


def is_taken_back(error: SQLAlchemyError) -> bool:
    return state_of(error) in _TAKEN_BACK


def is_locked(error: SQLAlchemyError) -> bool:
    return state_of(error) == LOCK_NOT_AVAILABLE


def is_refused(error: SQLAlchemyError, *, writing: bool) -> bool:
    """See `Errors.is_refused`. A duplicate may be one for a moment only: see `_TAKEN_BACK`."""
    if is_in_doubt(error):
        return False
    if isinstance(error, IntegrityError | DataError):
        return True
    state = state_of(error)
    return writing and bool(state) and state not in _TAKEN_BACK and not is_lost(error)


def is_in_doubt(error: SQLAlchemyError) -> bool:
    state = state_of(error)
    return state.startswith(_MAY_BE_A_TRIGGERS) and state not in _TAKEN_BACK and not is_lost(error)


def is_missing(error: SQLAlchemyError) -> bool:
    return state_of(error) in _MISSING


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
    """See `ServerErrors.none_usable`. What a server says to a login is read from its sentence."""
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
