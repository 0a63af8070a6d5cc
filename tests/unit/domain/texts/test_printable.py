"""What could deceive a reader is escaped, and costs nothing where it is not."""

import json
import unicodedata

import pytest

from cronhare.domain.texts.printable import printable, printable_json

#: Unassigned to this Python, format characters to later ones.
LATER = frozenset(chr(code) for code in range(0x13439, 0x13440))
#: The planes that have others than ideographs.
ALL = "".join(map(chr, (*range(0x20000), *range(0xE0000, 0xE1000))))
HARMFUL = frozenset(
    char for char in ALL if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
)


@pytest.mark.parametrize("keep", ["", "\t", "\t\n"])
def test_all_that_is_harmful_is_escaped_and_nothing_else(keep: str) -> None:
    expected = {*HARMFUL, *LATER} - {*keep}

    shown = printable(ALL, keep=keep)

    assert {*ALL} - {*shown} == expected
    assert printable("\x1b\u202e\ud800\U000e0041é", keep=keep) == r"\x1b\u202e\ud800\U000e0041é"


def test_strings_in_json_keep_their_values_but_for_lone_surrogates() -> None:
    document = json.dumps(ALL, ensure_ascii=False)

    shown = printable_json(document)

    assert not {*shown} & HARMFUL
    value = json.loads(shown)
    assert {*ALL} - {*value} == {chr(code) for code in range(0xD800, 0xE000)}
    assert json.loads(printable_json('"\ud800"')) == r"\ud800"
    assert printable_json('{\n "a": 1\n}') == '{\n "a": 1\n}'
