"""What else decides whether an instant runs."""

from datetime import timedelta

import pytest

from cronhare.domain.schedules.conditions import expired


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (timedelta(minutes=10), "expired: not started within 10m of its due instant"),
        (timedelta(days=-739_943), "expired: it was to start before its due instant, and cannot"),
    ],
)
def test_an_end_before_the_begin_is_told_as_such(after: timedelta, said: str) -> None:
    assert expired(after) == said
