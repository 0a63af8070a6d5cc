"""Signing our own messages, so that others who may publish cannot forge them."""

import hmac
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import msgspec

SIGNATURE_HEADER: Final = "cron-signature"

#: In characters; a shorter key could be guessed.
SHORTEST_KEY: Final = 16


@attrs.frozen
class Seal:
    """The keys of our messages: the first one signs, each of them verifies.

    So a key is changed in two steps: first every node knows the new one, then it comes first.
    Without keys nothing is signed, and nothing needs to be.
    """

    keys: Sequence[str] = attrs.field(default=(), repr=False)

    def sign(self, body: bytes, headers: Mapping[str, object]) -> dict[str, object]:
        """Give the headers with the signature of body and headers, if there is a key."""
        if not self.keys:
            return dict(headers)
        return {**headers, SIGNATURE_HEADER: _signature(self.keys[0], body, headers)}

    def holds(self, body: bytes, headers: Mapping[str, object], *, of: Sequence[str]) -> bool:
        """Tell whether one of our keys has signed this body with the headers *of* these names."""
        signature = headers.get(SIGNATURE_HEADER)
        if not isinstance(signature, str) or not signature.isascii():
            return False
        signed = {name: headers[name] for name in of if name in headers}
        try:
            ours = [_signature(key, body, signed) for key in self.keys]
            return any(hmac.compare_digest(each, signature) for each in ours)
        except (TypeError, ValueError, OverflowError, RecursionError):  # no headers that we write
            return False


def _signature(key: str, body: bytes, headers: Mapping[str, object]) -> str:
    """Sign the headers as one line of JSON, sorted by name, and the body after it."""
    line = msgspec.json.encode(sorted((name, headers[name]) for name in headers))
    return hmac.digest(key.encode(), line + b"\n" + body, "sha256").hex()
