"""What a task is given and keeps, which task a run means, and that nobody runs another file's."""

import attrs
import pytest

from cronhare.domain.schedules.catalog import Catalog, MissingKind, MissingTask
from cronhare.domain.schedules.task import (
    BUILT_IN_CLASSES,
    Keep,
    Task,
    TaskRef,
    assigned_number,
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
        {"options_interface": {"delivery": None}},
        {"options_interface": [{"delivery": {}}]},
        [{"options_interface": {"delivery": {}}}],
        "text",
    ],
)
def test_anything_else_stays_as_it_is(params: object) -> None:
    assert force_instant(params) == params


@pytest.mark.parametrize(
    ("name", "done", "failed"),
    [("emails", 100, 500), ("webhooks", 500, 1_000), ("payments", 1_000, 5_000)],
)
def test_the_original_classes_keep_so_many(name: str, done: int, failed: int) -> None:
    assert BUILT_IN_CLASSES[name].keep == Keep(done=done, failed=failed)


ONE, TWO, UNHEARD = TaskRef("worker", 1), TaskRef("worker", 2), TaskRef("worker", 9)


def task(name: str, ref: TaskRef, source: str | None = "shop") -> Task:
    return Task(name=name, ref=ref, command=("true",), source=source)


BACKUP, SWEEP = task("backup", ONE), task("sweep", TWO)
HEARS = attrs.evolve(task("hears", TaskRef("worker", 3)), topics=("due", "paid"))
CATALOG = Catalog([BACKUP, SWEEP, HEARS])


@pytest.mark.parametrize(
    ("ref", "said", "found"),
    [
        (ONE, {"source": "shop", "name": "backup"}, BACKUP),
        (UNHEARD, {"source": "shop", "name": "sweep"}, SWEEP),  # the file numbers it anew
        (TWO, {"source": "shop"}, SWEEP),
        *((ONE, {"source": each, "topic": "paid"}, HEARS) for each in ("shop", None, "garden")),
    ],
)
def test_a_run_is_found_by_its_name_its_number_or_its_topic(
    ref: TaskRef, said: dict[str, str | None], found: Task
) -> None:
    assert CATALOG.find(ref, **said) is found


def test_an_assigned_number_never_changes() -> None:
    assert assigned_number("jobs.toml", "backup") == 1_168_272_980


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("shop", MissingKind.UNHEARD),
        (None, MissingKind.UNHEARD),
        ("garden", MissingKind.FOREIGN),  # a worker of that file may have the listener
    ],
)
def test_an_event_without_a_listener_is_told_with_what_they_listen_to(
    source: str | None, kind: MissingKind
) -> None:
    answer = CATALOG.find(ONE, source=source, topic="lost")

    assert isinstance(answer, MissingTask)
    assert answer.kind is kind
    if kind is MissingKind.UNHEARD:
        assert "listens to lost; they listen to: due, paid" in str(answer)
