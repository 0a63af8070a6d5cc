"""What the audit hides of values: what a name calls a secret, a URL's user, and known tokens.

It is a help, not a promise: a password inside a command line that nothing calls one is kept as it
was given (docs/access.md).
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
#: What may follow that word without making it another one.
_FILLING: Final = frozenset(
    [
        *("base", "hash", "plain", "raw", "string", "text", "value"),
        *("confirm", "confirmation", "new", "old"),
    ]
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
    r"\bchr_[\w-]{43}|(?<![\w-])(?:\w{1,30}-){0,4}eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?|\bgh[a-z]_\w{20,}|\bgithub_pat_\w{20,}"
    r"|\bglpat-[\w-]{15,}|\bxox[a-z]-[\w-]{10,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}|\bAIza[\w-]{30,}"
    r"|\b[sr]k[-_](?:\w{1,10}[-_])?\w{16,}|\bhooks\.slack\.com/services/[\w/]{5,200}"
    r"|\bdiscord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/[\w/-]{5,200}|\b(?:bot)?\d{6,12}:[\w-]{30,60}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
)
#: `Bearer x`, as headers say it.
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)([ \t]+)(?=[\w.~+/-]*[\d=+/_.~-])[\w.~+/=-]{8,}")

#: All of a line is the value of these.
_HEADER: Final = re.compile(
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)([\"']?[:=] ?)[^\r\n]+"
)
#: `NAME=value`, `name: value` and `--name value`; any quote may have backslashes before it.
_NAME: Final = re.compile(
    r"(?<![\w.-])(?:([A-Za-z_][\w.-]{0,200})\\*[\"']?[ \t]{0,8}[:=][ \t]{0,8}"
    r"|(--?[A-Za-z][\w.-]{0,200})[= ][ \t]{0,8}(?!-))"
)
#: What is quoted, up to a quote with as many backslashes, or in brackets, after `b`, `$`; a word.
_QUOTED: Final = r"(\\*+)([\"'])(?:[^\n]*?(?<!\\)\%d\%d|[^\n]*)"
_VALUE: Final = re.compile(
    rf"[bBfFrRuU$]{{0,2}}(?:{_QUOTED % (1, 2)}"
    rf"|[\[({{](?:{_QUOTED % (3, 4)}|\\+|[^\\\n\])}}])*[\])}}]?[^\s\"'&;,]*)|[^\s\"'&;,]+"
)


def names_a_secret(name: str) -> bool:
    """Tell whether a value of this name is better shown to nobody.

    >>> [names_a_secret(each) for each in ("dbPassword", "X-API-Key", "PGPASSWORD", "--token")]
    [True, True, True, True]
    >>> [names_a_secret(each) for each in ("key", "tokens_left", "concurrency_key", "bypass")]
    [False, False, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    while words and words[-1] in _FILLING:
        words.pop()
    if not words:
        return False
    last = words[-1]
    if last == "key":
        return len(words) > 1 and words[-2] not in _OPEN_KEYS
    return last in _SECRET or (last.endswith(_ENDS) and last not in _NONE)


def announces_secret(word: str) -> bool:
    """Tell whether a word of a command line says that the next one is a secret.

    >>> [announces_secret(each) for each in ("--db-password", "--password=x", "password")]
    [True, False, False]
    """
    return word.startswith("-") and "=" not in word and names_a_secret(word)


def without_secrets(text: str) -> str:
    """Hide what a text shows of secrets; it stays readable otherwise.

    >>> without_secrets("PGPASSWORD=hunter2 psql --token x1 -h db")
    'PGPASSWORD=*** psql --token *** -h db'
    >>> without_secrets("from https://ada:hunter2@example.org/x on")
    'from https://***@example.org/x on'
    """
    text = _USER.sub(rf"\1{HIDDEN}@", _FORMS.sub(HIDDEN, _HEADER.sub(rf"\1\2{HIDDEN}", text)))
    text = _BEARER.sub(rf"\1\2{HIDDEN}", text)
    parts, done = list[str](), 0
    for found in _NAME.finditer(text):
        if found.start() < done or not names_a_secret(found[1] or found[2]):
            continue
        if value := _VALUE.match(text, found.end()):
            parts += [text[done : found.end()], HIDDEN]
            done = value.end()
    return "".join([*parts, text[done:]])
