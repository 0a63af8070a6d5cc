"""What the audit hides of values: what a name calls a secret, a URL's user, and known tokens.

It is a help, not a promise: a password inside a command line is kept as it was given
(docs/access.md).
"""

import re
from typing import Final

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
