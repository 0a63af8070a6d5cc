"""How tables, durations, moments and addresses that people write are read, and text is shown."""

import json
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.addresses import WebAddress
from cronhare.domain.reading import Fault, Invalid, Reads, read_table, read_whole, whole_number
from cronhare.domain.texts.moments import (
    LONGEST_DURATION,
    LONGEST_MOMENT,
    DurationInvalid,
    parse_duration,
    read_iso,
    read_time_of_day,
    say_duration,
)
from cronhare.domain.texts.printable import echo, printable, printable_json


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("is odd")
    return number * 10


def _each_named(names: list[str]) -> tuple[str, ...]:
    if faults := [Fault(f"[{n}]", "is empty") for n, name in enumerate(names) if not name]:
        raise Invalid(faults)
    return tuple(names)


Even = Annotated[int, whole_number(range(1, 2_000)), Reads(_even)]


@attrs.frozen(kw_only=True)
class OfAttrs:
    must: str = attrs.field(default="-", metadata={"required": True})
    class_: Even = 2
    names: Annotated[list[str], Reads(_each_named)] | None = None


class Strict(msgspec.Struct, rename={"number": "number_ms"}, forbid_unknown_fields=True):
    must: str = "-"
    number: Even = 2


class Plain(msgspec.Struct):
    must: str
    number: Even = 2


def test_every_fault_is_told_in_the_order_of_the_table_and_the_rest_is_read() -> None:
    faults = list[Fault]()

    read = read_table(OfAttrs, {"clas": 1, "names": ["", "a", ""], "class": 3}, faults)

    assert [str(fault) for fault in faults] == [
        "clas: is not known here; did you mean class?",
        "names[0]: is empty",
        "names[2]: is empty",
        "class: is odd",
        "must: is missing",
    ]
    assert read == OfAttrs()


@pytest.mark.parametrize(
    ("kind", "table", "expected"),
    [
        (OfAttrs, {"must": "a", "class": 4}, OfAttrs(must="a", class_=40)),
        (Strict, {"number_ms": 4}, Strict(number=40)),
        (Plain, {"must": "a", "number": 4}, Plain(must="a", number=40)),
    ],
)
def test_a_table_without_faults_is_a_value_of_its_class(
    kind: type[OfAttrs | Strict | Plain], table: object, expected: object
) -> None:
    faults = list[Fault]()

    assert read_table(kind, table, faults) == read_whole(kind, table) == expected
    assert faults == []


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ([], ": [] is not a table"),
        ({"number_ms": 2_000}, "number_ms: 2000 is not a whole number, 1-1,999"),
        ({"number_ms": b"22"}, "number_ms: 2 bytes is not a whole number, 1-1,999"),
        ({"must": 10**400}, "must: a number of 401 digits is not text"),
    ],
)
def test_any_value_is_refused_with_what_is_allowed(table: object, fault: str) -> None:
    faults = list[Fault]()

    read = read_table(Strict, table, faults, quote=lambda value: echo(value) if value else "[]")

    assert [str(each) for each in faults] == [fault]
    assert read == Strict()


whole_milliseconds = st.integers(0, LONGEST_DURATION // timedelta(milliseconds=1)).map(
    lambda number: timedelta(milliseconds=number)
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1d2h3m4s5ms", 93_784.005),
        ("36525d", 36_525 * 86_400.0),
    ],
)
def test_a_duration_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "5 m", "-5m", "1.5h", "1w", "\u0665m", "9999999999s"),
        *("36525d1ms", "999999999d", "999999999d999999999d"),
    ],
)
def test_a_text_that_is_no_duration_says_how_to_write_one(text: str) -> None:
    with pytest.raises(DurationInvalid, match=r'write "90s", "5m", "1h30m" or "250ms"|longer than'):
        parse_duration(text)


@given(whole_milliseconds)
def test_what_is_said_is_read_back(duration: timedelta) -> None:
    assert parse_duration(say_duration(duration)) == duration


OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda n: timezone(timedelta(minutes=n)))


@given(st.datetimes(timezones=st.none() | OFFSETS))
def test_what_python_writes_is_read(moment: datetime) -> None:
    assert read_iso(moment.isoformat()) == moment
    assert read_iso(moment.isoformat(" ")) == moment
    assert read_time_of_day(moment.timetz().isoformat()) == moment.timetz()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-02t08", datetime(2026, 3, 2, 8)),  # noqa: DTZ001 - it has no zone
        ("2026-W10-1", datetime(2026, 3, 2)),  # noqa: DTZ001 - likewise
        ("20260302T080000,5Z", datetime(2026, 3, 2, 8, 0, 0, 500_000, UTC)),
        ("2026-03-02T08:00:00.123456789Z", datetime(2026, 3, 2, 8, 0, 0, 123456, UTC)),
    ],
)
def test_each_form_of_iso_8601_is_read(text: str, moment: datetime) -> None:
    assert read_iso(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "1" * 50_000,
        "2027-01-01\0" + "00:00",
        "2027-01-01\N{ARABIC-INDIC DIGIT FIVE}00:00",
        "2027-01-01T00:00:00Z" + " " * LONGEST_MOMENT,
        "2027-01-01T08,5",
        "2027-01-01T0800.5+01:00",
        "",
    ],
)
def test_nothing_else_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"no date and time|Invalid isoformat|month must be"):
        read_iso(text)
    with pytest.raises(ValueError, match=r"no date and time|Invalid isoformat|month must be"):
        read_time_of_day(text)


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


SECRET = "c4nary"


def test_an_address_is_taken_apart() -> None:
    web = WebAddress.parse(f"HTTPS://Hooks.Example.ORG.:8443/a/{SECRET}?b=%20")

    assert (web.scheme, web.host, web.port) == ("https", "hooks.example.org", 8443)
    assert web.target == f"/a/{SECRET}?b=%20"


def test_its_text_shows_scheme_host_and_port_and_nothing_else() -> None:
    web = WebAddress.parse(f"https://[2001:DB8::1]/{SECRET}")

    assert str(web) == "https://[2001:db8::1]"
    assert SECRET not in repr(web)


@pytest.mark.parametrize(
    ("url", "target"),
    [("http://a", "/"), ("http://a?b=c", "/?b=c"), ("http://a:/x", "/x"), ("http://a:80", "/")],
)
def test_what_is_not_named_is_usual(url: str, target: str) -> None:
    assert (WebAddress.parse(url).port, WebAddress.parse(url).target) == (80, target)


@pytest.mark.parametrize(
    "host",
    ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.0x1", "1.2.3.4.5", "256.1.1.1"],
)
def test_an_address_in_another_form_than_its_own_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="write an IPv4 address in full"):
        WebAddress.parse(f"http://{host}/")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"ftp://{SECRET}", "must be like"),
        (f"http://{SECRET}@good.example/", "user or password"),
        (f"http://good.example#{SECRET}@evil.example/", "has a #"),
        (f"http://a/{SECRET}\r\nHost: b", "control character"),
        (f"http://\uff11{SECRET}/", "not ASCII"),
        (f"http://a%2e/{SECRET}", "no name or address"),
        (f"http://a:{SECRET}/", "has a port"),
        (f"http://[::1/{SECRET}", "no name or address"),
        (f"http://[fe80::1%25eth0]/{SECRET}", "with a zone"),
        (f"http://[{SECRET}]/", "no IPv6 address"),
        (f"http://a/{SECRET}{'x' * 2_048}", "longer than 2,048"),
    ],
)
def test_what_could_mislead_is_refused_and_never_quoted(url: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        WebAddress.parse(url)

    assert why in str(caught.value)
    assert SECRET not in str(caught.value)
