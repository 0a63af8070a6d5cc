from datetime import UTC, datetime

import pytest

from cronhare.domain.messages import LARGEST_HEADERS, MOST_HEADERS, kept_headers

X_DEATH = {"queue": "q", "count": 2, "time": datetime(2026, 3, 2, tzinfo=UTC), "keys": ["q"]}


def test_what_is_small_and_plain_goes_on() -> None:
    headers = {"text": "Köln", "none": None, "no": False, "least": -(2**63), "x-death": [X_DEATH]}

    assert kept_headers(headers) == headers


@pytest.mark.parametrize(
    "value",
    [2**63, -(2**63) - 1, 1e300, b"raw", object(), [object()], {"in": b"raw"}, [[[[["deep"]]]]]],
)
def test_what_might_not_be_written_is_left_out(value: object) -> None:
    assert kept_headers({"odd": value, "trace": "abc"}) == {"trace": "abc"}


def test_a_name_too_long_for_the_wire_is_left_out() -> None:
    assert kept_headers({"ö" * 65: 1, "o" * 128: 1}) == {"o" * 128: 1}


def test_the_number_and_the_bytes_are_bounded() -> None:
    many = kept_headers({f"h{n}": n for n in range(1_000)})
    large = kept_headers({f"h{n}": "x" * 1_000 for n in range(1_000)})

    assert len(many) == MOST_HEADERS
    assert 7_000 < sum(len(str(value)) for value in large.values()) <= LARGEST_HEADERS
