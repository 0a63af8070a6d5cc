"""Times as people write them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from cronhare.entrypoints.cli.errors import Refusal
from cronhare.entrypoints.cli.times import read_future, read_past

NOW = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2hh", "soon", "", "1" * 70, "1" * 30, "2027-01-01x00:00"])
def test_what_is_neither_a_time_nor_how_long_is_told_both_forms(text: str) -> None:
    both = r"is no time; write 2026-03-28T08:00:00Z, .* or how long: 90s"

    with pytest.raises(Refusal, match=both):
        read_past(text, now=NOW)
    with pytest.raises(Refusal, match=both):
        read_future(text, ZoneInfo("UTC"), now=NOW)
