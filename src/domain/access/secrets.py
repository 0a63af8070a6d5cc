"""What is taken for a secret among values that people gave: by its name, or in a URL."""

import re
from typing import Final

HIDDEN: Final = "***"

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: A name is its last word's: `token_count` is a number.
_SECRET: Final = frozenset(
    [
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "pwd",
        "pass",
        "pw",
        "secret",
        "secrets",
        "token",
        "apikey",
        "privatekey",
        "credential",
        "credentials",
        "authorization",
        "auth",
        "cookie",
        "cookies",
        "bearer",
    ]
)
#: What stands between the scheme of a URL and its host.
_USER: Final = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)[^/\s@]+@")


def names_a_secret(name: str) -> bool:
    """Tell whether a value of this name is better shown to nobody.

    >>> [names_a_secret(each) for each in ("dbPassword", "X-API-Key", "key", "tokens_left")]
    [True, True, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    return words[-1] in _SECRET or (words[-1] == "key" and len(words) > 1)


def without_users(text: str) -> str:
    """Hide who a URL names, and the password.

    >>> without_users("from https://ada:hunter2@example.org/x on")
    'from https://***@example.org/x on'
    """
    return _USER.sub(rf"\1{HIDDEN}@", text)
