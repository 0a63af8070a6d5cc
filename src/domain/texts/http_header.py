"""Which headers a request over HTTP may have: a file hears it, and so does what sends."""

import re
from typing import Final

#: Headers of a request, beside those that frame it.
MOST_HEADERS: Final = 64
LONGEST_NAME: Final = 128
LONGEST_VALUE: Final = 8_192

_TOKEN: Final = re.compile(rf"[!#$%&'*+.^_`|~0-9A-Za-z-]{{1,{LONGEST_NAME}}}")  # RFC 9110, 5.6.2

#: No line ends, and what Latin-1 can say.
_VALUE: Final = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")

#: They frame a message or say whom it is for: ours alone, or one request could hide another.
_FRAMING: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def fault_of_name(name: str) -> str | None:
    """Say why no caller may send a header of that name; None if one may.

    >>> fault_of_name("X-Shop"), fault_of_name("Expect")
    (None, 'frames the message or says whom it is for: cronhare alone sets it')
    """
    if not _TOKEN.fullmatch(name):
        return f"is no header's name: letters, digits and -, {LONGEST_NAME} at most"
    if name.lower() in _FRAMING:
        return "frames the message or says whom it is for: cronhare alone sets it"
    return None


def fault_of_value(value: str) -> str | None:
    r"""Say why a header may not have that value; None if it may. It may be secret: no quote.

    >>> fault_of_value("a\r\nb")
    'has a line end, a control character or one beyond Latin-1'
    """
    if len(value) > LONGEST_VALUE:
        return f"is longer than {LONGEST_VALUE:,} characters"
    if not _VALUE.fullmatch(value):
        return "has a line end, a control character or one beyond Latin-1"
    return None
