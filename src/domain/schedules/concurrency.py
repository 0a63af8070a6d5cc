"""A limit per concurrency key: so many attempts with the same key run at once, over all workers.

The key may have parts that come from the params of each run: `customer-{params.customer_id}`.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated, Final

import msgspec

from ..reading import whole_number

#: How many attempts a key may let run at once. Who starts one looks at all of them.
LIMITS: Final = range(1, 1_000 + 1)

#: The most letters of a key, and of what it is written as. A longer one is cut, with a digest.
LONGEST_KEY: Final = 200

_DIGEST: Final = 32

#: A larger number counts as this one: Python takes long to write very large ones, or refuses.
_LARGEST: Final = 2**64

#: A part that comes from the params: names of their tables, the last one of a text or a number.
_PART: Final = re.compile(r"\{params((?:\.[A-Za-z0-9_-]{1,64}){1,8})\}")


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """At most *limit* attempts with the same *key* run at once; the key may have parts."""

    key: str
    limit: Annotated[int, whole_number(LIMITS)]

    def key_of(self, params: str) -> str:
        """Give the key of a run with these *params*, which are JSON text.

        A part that the params lack, or that is neither text nor whole number, is empty: such runs
        share a key.

        >>> Concurrency(key="customer-{params.id}", limit=5).key_of('{"id": 42}')
        'customer-42'
        """
        return _filled_in(self.key, params) if "{" in self.key else self.key

    def lacking(self, params: str) -> tuple[str, ...]:
        """Name the parts that a run with these *params* leaves empty.

        >>> key = Concurrency(key="{params.shop.id}-{params.customer}", limit=5)
        >>> key.lacking('{"shop": {"id": 7}, "custmer": 42}')
        ('params.customer',)
        """
        known = _decoded(params)
        paths = dict.fromkeys(part[1] for part in _PART.finditer(self.key))
        return tuple(f"params{path}" for path in paths if not _value(known, path).strip())


def faults_of_key(key: str) -> Iterator[str]:
    """Say what is wrong with a key as people write it."""
    if not 0 < len(key) <= LONGEST_KEY:
        yield f"has {len(key):,} letters, 1-{LONGEST_KEY} are allowed"
        return
    rest = _PART.sub("", key)
    if "{" in rest or "}" in rest:
        yield "has a brace that begins no part; a part is {params.NAME}"
    if not rest.isprintable() or key != key.strip():
        yield "has a control character, or a blank at an end"


def _filled_in(key: str, params: str) -> str:
    known = _decoded(params)
    return _bounded(_PART.sub(lambda part: _value(known, part[1]), key))


def _decoded(params: str) -> object:
    try:
        return msgspec.json.decode(params)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _value(known: object, path: str) -> str:
    for name in path.removeprefix(".").split("."):
        known = known.get(name) if isinstance(known, dict) else None
    if isinstance(known, bool) or not isinstance(known, str | int):
        return ""
    return known if isinstance(known, str) else str(max(min(known, _LARGEST), -_LARGEST))


def _bounded(key: str) -> str:
    """Let a key be one that every database keeps and compares letter by letter."""
    stripped = key.strip()
    if stripped.isprintable() and len(stripped) <= LONGEST_KEY:
        return stripped
    digest = sha256(key.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    shown = "".join(letter for letter in stripped if letter.isprintable())
    return f"{shown[: LONGEST_KEY - _DIGEST - 1].rstrip()}~{digest}"
