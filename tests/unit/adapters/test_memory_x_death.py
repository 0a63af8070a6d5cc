import pytest

from cronhare.adapters.memory.engine import is_cycle


def _entry(queue: str, reason: str) -> dict[str, object]:
    return {"queue": queue, "reason": reason, "count": 1}


@pytest.mark.parametrize(
    ("deaths", "expected"),
    [
        ([("main", "expired")], True),
        ([("retry", "expired"), ("main", "expired")], True),
        ([("retry", "expired"), ("main", "rejected")], False),
        ([("retry", "rejected"), ("main", "expired")], False),
        ([("main", "expired"), ("retry", "rejected")], True),
        ([("retry", "expired")], False),
        ([], False),
    ],
)
def test_only_a_way_back_without_a_rejection_is_a_cycle(
    deaths: list[tuple[str, str]], expected: bool
) -> None:
    headers = {"x-death": [_entry(queue, reason) for queue, reason in deaths]}

    assert is_cycle("main", headers) is expected
