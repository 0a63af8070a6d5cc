"""Values as JSON text for logs and pipes; every value can be written and printed."""

import json
from collections.abc import Callable

import msgspec

from cronhare.domain.texts.printable import printable_json


def as_json(value: object, *, encode: Callable[[object], object], indent: int | None = None) -> str:
    """Write a value as a JSON document; *encode* turns other types into those that JSON has."""
    plain = msgspec.to_builtins(value, enc_hook=encode)
    return printable_json(json.dumps(plain, ensure_ascii=False, indent=indent))
