"""What a task is given, and what is kept of its runs."""

import pytest

from cronhare.domain.reading import Invalid, read_whole
from cronhare.domain.schedules.task import (
    BUILT_IN_CLASSES,
    KEPT,
    ClassRetention,
    Keep,
    by_class,
    force_instant,
)


@pytest.mark.parametrize("delivery", [{}, {"instant": False}, {"instant": True}, {"to": "me"}])
def test_a_delivery_becomes_instant(delivery: dict[str, object]) -> None:
    params = {"controller": "X", "options_interface": {"delivery": delivery, "a": 1}}

    assert force_instant(params) == {
        "controller": "X",
        "options_interface": {"delivery": {**delivery, "instant": True}, "a": 1},
    }


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"controller": "X"},
        {"options_interface": {}},
        {"options_interface": {"delivery": None}},
        {"options_interface": {"delivery": "mail"}},
        {"options_interface": [{"delivery": {}}]},
        {"delivery": {"instant": False}},
        [{"options_interface": {"delivery": {}}}],
        "text",
        None,
        7,
    ],
)
def test_anything_else_stays_as_it_is(params: object) -> None:
    assert force_instant(params) == params


EMAILS = ClassRetention(class_="emails", done=100, failed=500)


@pytest.mark.parametrize(
    ("name", "done", "failed"),
    [("emails", 100, 500), ("webhooks", 500, 1_000), ("payments", 1_000, 5_000)],
)
def test_the_original_classes_keep_so_many(name: str, done: int, failed: int) -> None:
    assert BUILT_IN_CLASSES[name].keep == Keep(done=done, failed=failed)


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (3, "3 is not a table"),
        ({"done": -1}, "done: -1 is not a whole number, 0-100,000"),
        ({"done": KEPT[-1] + 1}, "done: 100001 is not"),
        ({"failed": "5"}, 'failed: "5" is not'),
        ({"failed": True}, "failed: true is not"),
        ({"age": 5}, "age: is not known here"),
    ],
)
def test_a_table_that_cannot_be_says_what_is_wrong(table: object, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        read_whole(Keep, table)


@pytest.mark.parametrize("name", [None, 3, "", "Emails", "a b", "e" * 64, "../x"])
def test_a_row_names_a_class_as_a_file_does(name: object) -> None:
    with pytest.raises(Invalid, match="is not a name of a class"):
        read_whole(ClassRetention, {"class": name, "done": 1})


def test_a_class_is_one_of_its_file_and_where_rows_disagree_the_most_is_kept() -> None:
    fewer = ClassRetention(class_="emails", done=5)
    others = ClassRetention(class_="webhooks", done=0)

    classes = by_class(
        [
            (1, "a.toml", EMAILS),
            (2, "b.toml", EMAILS),
            (3, "a.toml", fewer),
            (4, None, others),
            (5, "a.toml", EMAILS),
        ]
    )

    assert classes == [
        ([1, 3, 5], Keep(done=100)),
        ([2], EMAILS.keep),
        ([4], Keep(done=0)),
    ]
