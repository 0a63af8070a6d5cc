"""What is taken for a date and a time, and what Python alone would take as well."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhare.domain.texts.moments import LONGEST_MOMENT, read_iso, read_time_of_day

OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda n: timezone(timedelta(minutes=n)))


@given(st.datetimes(timezones=st.none() | OFFSETS))
def test_what_python_writes_is_read(moment: datetime) -> None:
    assert read_iso(moment.isoformat()) == moment
    assert read_iso(moment.isoformat(" ")) == moment
    assert read_time_of_day(moment.timetz().isoformat()) == moment.timetz()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-02T08:00Z", datetime(2026, 3, 2, 8, tzinfo=UTC)),
        ("2026-03-02t08", datetime(2026, 3, 2, 8)),  # noqa: DTZ001 - it has no zone
        ("20260302T080000+0000", datetime(2026, 3, 2, 8, tzinfo=UTC)),
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
        "1" * 20,
        "2027-01-01\0" + "00:00",
        "2027-01-01\N{ARABIC-INDIC DIGIT FIVE}00:00",
        "2027-01-01T00:00:00." + "0" * 3_000,
        "2027-01-01T00:00:00Z" + " " * LONGEST_MOMENT,
        "2027-01-01T00:00Z\n",
        "2027-13-01",
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


@pytest.mark.parametrize("text", ["08,5", "T08:00.5", "0800,5Z"])
def test_a_fraction_is_one_of_a_second(text: str) -> None:
    with pytest.raises(ValueError, match="no date and time"):
        read_time_of_day(text)
