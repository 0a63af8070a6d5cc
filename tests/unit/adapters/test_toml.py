import random
import tomllib

import pytest

from cronhare.adapters.toml import TooMuch, read_toml
from cronhare.domain.schedules.catalog import DEEPEST, LONGEST_WORD, MOST_PIECES

DOTTED = ".".join("a" * (DEEPEST + 1))

#: Signs that mean nothing where they stand, and texts that end otherwise than they seem to.
VALUES = (
    '"[[[ {{{ === ,,, \'"',
    "'[[[ {{{ === ,,, \"'",
    r'"a \" [ \\"',
    r"'\'",
    '""',
    "''",
    '""""""',
    "''''''",
    '"""""a"""""',
    "'''''a'''''",
    '"""a "" " [ \\""" \\\n  {\n"""',
    "'''a '' ' [ \\\n#'''",
    "[1, # ] \" '''\n 2,]",
    "{ a.b = [{}], 'c.d' = \"]\" }",
    "-1.5e+3",
    "2026-01-01T00:00:00.123Z",
    "0xff",
    "true",
)


def _statement(rng: random.Random, number: int) -> str:
    key = rng.choice((f"k{number}", f"'.[{number}'", f'"\\"]{number}"', f"k{number} . b.'c'"))
    match rng.randrange(4):
        case 0:
            return f"[ {key} ]"
        case 1:
            return f"[[{key}]]"
    return f"{key} = {rng.choice(VALUES)}"


def test_what_is_read_is_what_the_standard_library_reads() -> None:
    rng = random.Random(5)
    for _ in range(300):
        ends = ("\n", " # [\n", "\r\n", ' #"\n\n', "\t\n  ")
        statements = (_statement(rng, number) for number in range(rng.randrange(12)))
        text = "".join(each + rng.choice(ends) for each in statements)

        assert read_toml(text) == tomllib.loads(text)
        with pytest.raises(TooMuch):
            read_toml(f"{text}{DOTTED} = 1")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"a = 1\n{DOTTED} = 1", "more than 64 tables and lists in one another, as of line 2"),
        (f"[{DOTTED}]", "more than 64 tables"),
        (f"[[{DOTTED}]]", "more than 64 tables"),
        (f"a = {{ {DOTTED} = 1 }}", "more than 64 tables"),
        ("'.'." * 65 + "a = 1", "more than 64 tables"),
        ('"\\"" . ' * 65 + "a = 1", "more than 64 tables"),
        ("a." * 50_000 + "b = 1", "more than 64 tables"),
        (f"a = {'[' * 50_000}", "more than 64 tables"),
        (f"a = {'{a=' * 50_000}", "more than 64 tables"),
        (f"a = [{'1,' * MOST_PIECES}]", "more than 250,000 keys and values"),
        ("".join(f"[{n}.{DOTTED[:-4]}]\n" for n in range(4_000)), "more than 250,000 keys"),
        (f"a = 0x{'f' * LONGEST_WORD}", "a word of more than 65,536 characters, as of line 1"),
        (f"a = {'1' * (LONGEST_WORD + 1)}.5\n", "a word of more than 65,536 characters"),
    ],
)
def test_what_would_take_a_reader_too_long_is_refused_before(text: str, fault: str) -> None:
    with pytest.raises(TooMuch, match=fault):
        read_toml(text)
