"""What is kept of a change that somebody asked for: who, how, when, what, on what, and the outcome.

An entry is written ahead, so that no change is without one, and completed after the change. One
that was never completed says that the outcome is not known: the process ended in between.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any, Final

import attrs

from .access import Actor
from .texts.printable import printable, shortened

#: Letters of what was changed, and of why it was refused.
LONGEST_TARGET: Final = 255
LONGEST_PROBLEM: Final = 1_000

#: What is kept of a value before and after: letters of a text, members of a list or an object, and
#: how deep these may lie in each other.
LONGEST_TEXT: Final = 1_000
MOST_MEMBERS: Final = 100
DEEPEST: Final = 6
#: Letters of a text that are read: what comes behind them is left out.
MOST_READ: Final = 16_384

#: A jobs file that changes more schedules than this has one entry, with how many and their names.
MOST_ENTRIES: Final = 100

#: So long entries are kept.
KEPT_FOR: Final = timedelta(days=365)

_LEFT_OUT: Final = "[left out]"
#: Letters of the words that say how many were left out.
_SAID: Final = 40


class Action(StrEnum):
    """What was done; the word before the dot says what kind of thing the target is."""

    CREATE = "schedule.create"
    EDIT = "schedule.edit"
    DELETE = "schedule.delete"
    ENABLE = "schedule.enable"
    DISABLE = "schedule.disable"
    PAUSE = "schedule.pause"
    RESUME = "schedule.resume"
    RUN = "schedule.run"
    BACKFILL = "schedule.backfill"
    APPLY = "jobs.apply"
    SAVE_CALENDAR = "calendar.save"
    DELETE_CALENDAR = "calendar.delete"
    CANCEL = "execution.cancel"
    REPLAY = "failure.replay"
    DISCARD = "failure.discard"
    RELEASE = "quarantine.release"
    ORDER_REPLAY = "replay.order"
    STOP_REPLAY = "replay.stop"
    RESUME_REPLAY = "replay.resume"
    RESET_BREAKER = "breaker.reset"
    DRAIN = "node.drain"
    UNDRAIN = "node.undrain"
    FORGET = "node.forget"
    MAKE_TOKEN = "token.create"  # noqa: S105 - a name
    REVOKE_TOKEN = "token.revoke"  # noqa: S105 - a name
    SIGN_IN = "session.begin"
    SIGN_OUT = "session.end"
    UPGRADE = "ledger.upgrade"


class AuditOutcome(StrEnum):
    """What became of a change; UNKNOWN also where nobody has written an outcome."""

    DONE = "done"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def kept(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Bound a JSON value, and hide secrets: the ledger's history outlives a schedule's row.

    >>> kept({"user": "ada", "password": "hunter2"})
    {'user': 'ada', 'password': '***'}
    """
    return _kept(value, DEEPEST)


def _kept(value: Any, depth: int) -> Any:  # noqa: ANN401
    match value:
        case str():
            return _text(value, LONGEST_TEXT)
        case None | bool() | float():
            return value
        case int():
            return value if abs(value) < 2**63 else _LEFT_OUT
        case _ if depth == 0:
            return _LEFT_OUT
        case Mapping():
            found = dict[str, Any]()
            for name, each in islice(value.items(), MOST_MEMBERS):
                said = _text(str(name), LONGEST_TARGET)
                hides = each is not None and names_a_secret(said)
                found[said] = HIDDEN if hides else _kept(each, depth - 1)
            left = len(value) - MOST_MEMBERS
            return found | ({"…": f"{left:,} more"} if left > 0 else {})
        case Sequence():
            left = len(value) - MOST_MEMBERS
            items = [_kept(each, depth - 1) for each in value[:MOST_MEMBERS]]
            return items + ([f"… {left:,} more"] if left > 0 else [])
    return _text(str(value), LONGEST_TEXT)


def _text(text: str, most: int) -> str:
    said = printable(without_secrets(text[:MOST_READ]))
    if (unread := len(text) - MOST_READ) > 0:
        return f"{said[:most]} … [{unread + max(0, len(said) - most)} characters left out]"
    return shortened(said, most)


def _target(text: str) -> str:
    return _text(text, LONGEST_TARGET - _SAID)


def _problem(text: str | None) -> str | None:
    return None if text is None else _text(text, LONGEST_PROBLEM - _SAID)


@attrs.frozen(kw_only=True)
class Intent:
    """A change that is about to be made. *before* and *after* are JSON values, as `kept` has them.

    *target* is a schedule's name, the number of an execution, a jobs file.
    """

    at: datetime
    actor: Actor
    action: Action
    target: str = attrs.field(converter=_target)
    before: Any = attrs.field(default=None, converter=kept)
    after: Any = attrs.field(default=None, converter=kept)


@attrs.frozen(kw_only=True)
class Result:
    """What became of the entry *id*; *after* replaces what was meant to be, if it is known."""

    id: int
    at: datetime
    outcome: AuditOutcome
    problem: str | None = attrs.field(default=None, converter=_problem)
    after: Any = attrs.field(default=None, converter=kept)


@attrs.frozen(kw_only=True)
class AuditEntry:
    """An entry as it is kept: an `Action` on a `Channel`."""

    id: int
    at: datetime
    actor: str
    channel: str
    action: str
    target: str
    before: Any = None
    after: Any = None
    outcome: AuditOutcome = AuditOutcome.UNKNOWN
    problem: str | None = None
    finished_at: datetime | None = None


HIDDEN: Final = "***"

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: A name is its last word's: `token_count` is a number.
_SECRET: Final = frozenset(
    [
        *("passwords", "pass", "pw", "secrets", "privatekey", "secretkey", "accesskey", "sshkey"),
        *("authorization", "auth", "cookie", "cookies", "bearer", "signature", "sig", "otp", "dsn"),
    ]
)
#: How a word ends that is one, also where nothing parts it from others: `PGPASSWORD`, `dbpwd`.
_ENDS: Final = (
    *("password", "passwort", "passwd", "passphrase", "passcode", "pwd", "pass", "secret"),
    *("token", "apikey", "credential", "credentials"),
)
_NONE: Final = frozenset(["bypass", "compass", "encompass", "overpass", "surpass", "underpass"])
#: Keys of other kinds, by the word before.
_OPEN_KEYS: Final = frozenset(
    [
        *("cache", "concurrency", "foreign", "group", "hot", "idempotency", "partition", "primary"),
        *("public", "routing", "sort", "unique"),
    ]
)

#: What stands between the scheme of a URL and its host. Passwords have been seen with / and @.
_USER: Final = re.compile(
    r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)"
    r"(?:[^/\s?#\"'<>]{0,300}@|[^/\s:@\"'<>]{0,300}:(?!\d+(?:[/?#\s\"']|$))[^\s\"'<>]{0,300}@)"
)
#: Tokens that are known for one wherever they stand: ours, JSON Web Tokens, those of well-known
#: services; and private keys.
_FORMS: Final = re.compile(
    r"\bchr_[\w-]{43}|(?<![\w-])eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?|\bgh[a-z]_\w{20,}"
    r"|\bgithub_pat_\w{20,}|\bglpat-[\w-]{15,}|\bxox[a-z]-[\w-]{10,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|\bAIza[\w-]{30,}|\b[sr]k[-_](?:\w{1,10}[-_])?\w{16,}"
    r"|\bhooks\.slack\.com/services/[\w/]{5,200}"
    r"|\bdiscord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/[\w/-]{5,200}"
    r"|\b(?:bot)?\d{6,12}:[\w-]{30,60}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
)
#: `Bearer x`, as headers say it.
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)([ \t]+)(?=[\w.~+/-]*[\d=+/_.~-])[\w.~+/=-]{8,}")


def names_a_secret(name: str) -> bool:
    """Tell whether a value of this name is better shown to nobody.

    >>> [names_a_secret(each) for each in ("dbPassword", "X-API-Key", "PGPASSWORD", "token")]
    [True, True, True, True]
    >>> [names_a_secret(each) for each in ("key", "tokens_left", "concurrency_key", "bypass")]
    [False, False, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if words[-1] == "key":
        return len(words) > 1 and words[-2] not in _OPEN_KEYS
    return words[-1] in _SECRET or (words[-1].endswith(_ENDS) and words[-1] not in _NONE)


def without_secrets(text: str) -> str:
    """Hide what a text shows of secrets; it stays readable otherwise.

    >>> without_secrets("from https://ada:hunter2@example.org/x on")
    'from https://***@example.org/x on'
    """
    return _BEARER.sub(rf"\1\2{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", _FORMS.sub(HIDDEN, text)))
