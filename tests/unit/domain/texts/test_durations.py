from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.texts.moments import (
    LONGEST_DURATION,
    DurationInvalid,
    parse_duration,
    say_duration,
)

whole_milliseconds = st.integers(0, LONGEST_DURATION // timedelta(milliseconds=1)).map(
    lambda number: timedelta(milliseconds=number)
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h30m", 5_400.0),
        ("250ms", 0.25),
        ("7d", 604_800.0),
        ("1d2h3m4s5ms", 93_784.005),
        ("0s", 0.0),
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


@given(st.text(alphabet="0123456789dhms .-", max_size=12))
def test_no_text_raises_anything_else(text: str) -> None:
    with suppress(DurationInvalid):
        assert timedelta(0) <= parse_duration(text) <= LONGEST_DURATION
