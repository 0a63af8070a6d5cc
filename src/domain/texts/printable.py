"""Text from outside for a log or a terminal: what could deceive a reader is escaped."""

import re
import unicodedata

#: Control characters, format characters (bidirectional marks, zero widths, tags), lone surrogates,
#: and the two separators that end a line in some viewers.
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

#: All but printable ASCII: these could be one of them.
_DOUBTFUL = re.compile(r"[^ -~]")


def printable(text: str, *, keep: str = "\t") -> str:
    r"""Escape what could move the cursor, reverse or hide text, or begin a new line.

    *keep* has characters that are not escaped.

    >>> printable("\x1b[31mred\tsea\n")
    '\\x1b[31mred\tsea\\n'
    >>> printable("Grüße \u202e \ud800")
    'Grüße \\u202e \\ud800'
    """
    if text.isprintable():
        return text
    return _DOUBTFUL.sub(lambda found: _escape(found[0], keep), text)


def printable_json(document: str) -> str:
    r"""Escape the same in a JSON document; its strings keep their values.

    A lone surrogate stands for a byte that was not text, and readers of JSON may refuse it: its
    escape becomes text.

    >>> printable_json('{"name": "a\u202eb"}')
    '{"name": "a\\u202eb"}'
    """
    if document.isprintable():
        return document
    return _DOUBTFUL.sub(lambda found: _escape_in_json(found[0]), document)


def shortened(text: str, most: int) -> str:
    """Leave out the middle of a text that is longer than *most* characters, and say so.

    >>> shortened("abcdefghij", 4)
    'ab … [6 characters left out] … ij'
    """
    left_out = len(text) - most
    if left_out <= 0:
        return text
    half = most // 2
    return f"{text[:half]} … [{left_out} characters left out] … {text[len(text) - (most - half) :]}"


def _is_harmful(char: str) -> bool:
    return unicodedata.category(char) in _HARMFUL


def _escape(char: str, keep: str) -> str:
    return ascii(char)[1:-1] if char not in keep and _is_harmful(char) else char


def _escape_in_json(char: str) -> str:
    if char == "\n" or not _is_harmful(char):  # between values, not in a string
        return char
    if unicodedata.category(char) == "Cs":
        return f"\\\\u{ord(char):04x}"
    pair = char.encode("utf-16-be").hex()
    return "".join(f"\\u{pair[at : at + 4]}" for at in range(0, len(pair), 4))
