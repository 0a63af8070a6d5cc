"""The API keeps what its description says, whatever is asked: `make fuzz` asks more of it."""

from pathlib import Path

from tests.fuzz.described import attempt, described, labels

#: Requests for each operation.
EXAMPLES = 2


def test_every_operation_answers_as_it_is_described(tmp_path: Path) -> None:
    with described(tmp_path) as site:
        assert set(labels()) == set(site.operations)
        for number, label in enumerate(labels()):
            attempt(label, site, examples=EXAMPLES, number=number)
        site.innocent()
