"""What is taken for a secret among values that people gave: by its name, its form, or in a URL.

This is the one place that says so. It hides too much rather than too little: what it leaves is kept
for a year, and shown to all who may read. `secret_commands` knows what has no name,
`secret_values` how far a value reaches.
"""

import re
from collections.abc import Iterator
from typing import Final

from .secret_commands import without_given
from .secret_values import HIDDEN, end_of_value, hide, is_pair

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

#: Some blanks, also as URLs have them: once, or twice over; more, where columns are aligned.
_BLANKS: Final = r"(?:\s|%(?:25)?20){0,8}+[ \t]{0,200}+"
#: What parts a name from its value; also in {"name": "db_password", "value": "x"}.
_SEPARATOR: Final = (
    rf"(?:,?{_BLANKS}[\\\"']{{0,8}}(?:values?|val|content|default)[\\\"']{{0,8}}{_BLANKS}[:=]"
    r"|=>|:=|==?|[:>\uff1a\uff1d]|%(?:25)?3[AD])"
)
#: What may be a name: before `=` or `:`, as an option before a blank, in quotes or not. A blank
#: parts the words of some.
_NAME: Final = re.compile(
    r"(?:(?<![\w.-])|(?<=%[0-9A-F]{2}))"
    r"(?:(?P<name>(?:(?:api|access|private|secret|ssh)[ ])?[A-Za-z_][\w.-]{0,200})"
    rf"(?:[\\\"'\[\d\])]|%(?:25)?22){{0,8}}{_BLANKS}{_SEPARATOR}{_BLANKS}"
    r"|(?P<option>--?[A-Za-z][\w.-]{0,200})(?:=|\s{1,8}+[ \t]{0,200}+))",
    re.IGNORECASE,
)
#: All of a line is the value of these.
_HEADERS: Final = frozenset(["authorization", "proxy-authorization", "cookie", "set-cookie"])
#: `Authorization: Bearer x`, word by word.
_SCHEMES: Final = frozenset(["basic", "bearer"])
#: `-u ada:hunter2`, as curl has it.
_USERS: Final = frozenset(["-u", "--user", "--proxy-user"])


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


def announces_secret(text: str) -> bool:
    """Tell whether a word of a command line says that the next one is a secret.

    >>> [announces_secret(each) for each in ("--db-password", "-u", "password:", "Bearer")]
    [True, True, True, True]
    >>> [announces_secret(each) for each in ("--password=x", "password", "user:")]
    [False, False, False]
    """
    if text in _USERS or text.lower() in _SCHEMES:
        return True
    is_name = text.startswith("-") and "=" not in text
    return (is_name or text.endswith((":", "="))) and names_a_secret(text)


def without_secrets(text: str) -> str:
    """Hide what a text shows of secrets; it stays readable otherwise.

    >>> without_secrets("PGPASSWORD=hunter2 psql --token x1 -h db")
    'PGPASSWORD=*** psql --token *** -h db'
    >>> without_secrets("from https://ada:hunter2@example.org/x on")
    'from https://***@example.org/x on'
    >>> without_secrets("mysql -uroot -phunter2 -P 3306 -e 'select 1'")
    "mysql -uroot -p*** -P 3306 -e 'select 1'"
    """
    text = _USER.sub(rf"\1{HIDDEN}@", _FORMS.sub(HIDDEN, text))
    text = _BEARER.sub(rf"\1\2{HIDDEN}", without_given(text))
    return hide(text, _named(text))


def _named(text: str) -> Iterator[tuple[int, int]]:
    done = 0
    for found in _NAME.finditer(text):
        name, start = found["name"] or found["option"], found.end()
        says_so = is_pair(text, start) if name in _USERS else names_a_secret(name)
        if found.start() < done or not says_so or text.startswith("--", start):
            continue
        end = end_of_value(text, start, is_line=name.lower() in _HEADERS)
        if end == start:
            continue
        yield start, end
        done = end
