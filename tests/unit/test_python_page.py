"""The page for programs names what there is: parameters, methods, fields, options."""

import builtins
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import cronhare
from cronhare import App, Call, Context, Handle, Retry, at, cron, every
from cronhare.domain.schedules.work import Executor
from cronhare.entrypoints.python.schedules import AppSchedules
from cronhare.entrypoints.python.tasks import Options, TaskDecorator

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")


def listed(head: str) -> set[str]:
    """Give what the first column of a table names; its head is given."""
    _, _, table = PAGE.partition(f"\n| {head} |")
    rows = table.partition("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def parameters(function: Callable[..., object]) -> set[str]:
    return set(inspect.signature(function).parameters)


def public(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def task_options() -> set[str]:
    """Those that `App.task` names; its overloads are in its source alone."""
    source = inspect.getsource(TaskDecorator)
    [said] = re.findall(r"def __call__\(\n\s+self,\n\s+\*,\n(.*?)\*\*words", source, re.DOTALL)
    return set(re.findall(r"(\w+): ", said))


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("`App(…)`", parameters(App)),
        ("method", public(vars(App)) - {"name", "ledger", "schedule_table"}),
        ("`@app.task(…)`", task_options()),
        ("executor", set(Executor)),
        ("field", public(dir(Context)) - {"on_report"}),
        ("option", {*Options.__annotations__, "on"}),
        ("`Handle`", public(dir(Handle))),
    ],
)
def test_a_table_names_all_that_there_is(head: str, names: set[str]) -> None:
    assert listed(head) == names


def test_all_that_can_be_imported_is_named() -> None:
    assert [name for name in cronhare.__all__ if not re.search(rf"\b{name}\b", PAGE)] == []
    assert {*cronhare.__all__} <= {*dir(cronhare)}
    assert all(getattr(cronhare, name).__name__ == name for name in cronhare.__all__)


def test_an_error_that_is_named_is_raised_as_what_the_page_says() -> None:
    _, _, table = PAGE.partition("\n| it raises |")
    rows = re.findall(r"^\| `(\w+)`, an? `(\w+)`", table.partition("\n\n")[0], re.MULTILINE)

    assert len(rows) > 5
    for name, base in rows:
        assert issubclass(getattr(cronhare, name), getattr(builtins, base))


@pytest.mark.parametrize("function", [cron, every, at, Retry])
def test_each_option_of_times_and_retries_is_shown(function: Callable[..., object]) -> None:
    shown = re.findall(rf"`{function.__name__}\((.*?)\)`", PAGE)
    options = parameters(function) - {"text", "interval", "moment", "attempts"}

    assert any(set(re.findall(r"(\w+)=", each)) >= options - {"jitter"} for each in shown)


def test_each_method_of_schedules_is_named() -> None:
    [row] = [line for line in PAGE.splitlines() if line.startswith("| `schedules` |")]

    assert set(re.findall(r"`(\w+)`", row)) - {"schedules"} == public(vars(AppSchedules))
    assert {"bind", "enqueue", "aenqueue", "options"} >= public(vars(Call)) - {
        "task",
        "params",
        "asked",
    }
