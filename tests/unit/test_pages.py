"""What pages of `docs` say against the code: operations, bounds, metrics, log actions, names."""

import builtins
import inspect
import pkgutil
import re
import runpy
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import cronhare
from cronhare import App, Call, Context, Handle, Retry, at, cron, every
from cronhare.adapters.extras import EXTRAS
from cronhare.adapters.jobs.reader import read_jobs
from cronhare.adapters.prometheus.catalogue import CATALOGUE, Source
from cronhare.adapters.prometheus.metrics import LedgerCollector, PrometheusMetrics
from cronhare.application.administration.views.values import retry_facts
from cronhare.domain.retries.policy import BACKOFFS, POLICIES, RetryPolicy
from cronhare.domain.schedules.task import BUILT_IN_CLASSES
from cronhare.domain.schedules.work import ATTEMPT_VARIABLES, EVENT_VARIABLES, Executor
from cronhare.entrypoints.probes import make_registry
from cronhare.entrypoints.python.schedules import AppSchedules
from cronhare.entrypoints.python.tasks import Options, TaskDecorator
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.settings.sources import CONFIG
from cronhare.entrypoints.vitals import Vitals
from cronhare.entrypoints.web import reading
from tests.unit.executions import NOON

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("script", ["api_operations", "log_actions"])
def test_a_table_is_made_from_the_code(script: str) -> None:
    made = runpy.run_path(str(ROOT / "scripts" / f"{script}.py"))

    text = made["page"]()

    assert text.count("\n| `") > 40
    assert made["PAGE"].read_text(encoding="utf-8") == text, f"run: python -m scripts.{script}"


def test_each_path_in_the_examples_of_the_api_is_an_operations() -> None:
    operations = runpy.run_path(str(ROOT / "scripts" / "api_operations.py"))["operations"]()
    shown = re.findall(r"\$API(/[^\s'\"?]*)", page("api.md"))
    patterns = [re.compile(re.sub(r"\{\w+\}", "[^/]+", each.path_format)) for each in operations]

    assert len(shown) > 10
    strange = [path for path in shown if not any(one.fullmatch(path) for one in patterns)]
    assert set(strange) <= {"/openapi.json"}


def test_the_numbers_of_the_api_are_those_of_the_code() -> None:
    said = f"{reading.ROWS} unless `limit` says otherwise, {reading.MOST_ROWS:,}"
    assert said in page("api.md")


#: What a number of a bound may be counted in: seconds, bytes, milliseconds.
UNITS = (1, 60, 3_600, 86_400, 365 * 86_400, 1_000, 60_000, 3_600_000, 86_400_000, 2**10, 2**20)

#: Said of what has no constant: a power, a standard, a year.
OTHERS = {2, 8601, 9999}


def constants() -> Iterator[float]:
    for found in pkgutil.walk_packages(cronhare.__path__, "cronhare."):
        if found.name.endswith(("__main__", ".vfork", ".env")) or ".django" in found.name:
            continue
        for name, value in vars(import_module(found.name)).items():
            if name.isupper():
                for each in value if isinstance(value, tuple) else (value,):
                    match each:
                        case range():
                            yield from (each[0], each[-1])
                        case timedelta():
                            yield each.total_seconds()
                        case int() | float():
                            yield each


@cache
def sayable() -> frozenset[float]:
    found = {each for each in constants() if each == each and abs(each) < float("inf")}  # noqa: PLR0124
    scaled = {each / unit for each in found for unit in UNITS}
    exponents = {int(each).bit_length() for each in found}
    return frozenset(scaled | exponents | {each + 1 for each in exponents})


def bounds() -> dict[str, str]:
    table = re.findall(r"^\| (.+?) \| (.+?) \|", page("bounds.md"), re.MULTILINE)
    return dict(table[2:])


@pytest.mark.parametrize("bound", bounds())
def test_each_number_of_a_bound_is_that_of_a_constant(bound: str) -> None:
    said = re.findall(r"\d[\d,]*(?:\.\d+)?", bounds()[bound])

    assert {float(each.replace(",", "")) for each in said} - sayable() - OTHERS == set()


BEGIN = "<!-- made of src/adapters/prometheus/catalogue.py: tests/unit/test_pages.py -->\n"
END = "<!-- end -->"


def metrics_table() -> Iterator[str]:
    order = list(Source)
    metrics = sorted(CATALOGUE, key=lambda one: order.index(one.source))
    for source, some in groupby(metrics, key=lambda one: one.source):
        yield f"\nOf {source.value}:\n\n| metric | type | what it is |\n| --- | --- | --- |\n"
        for one in some:
            labels = f"{{{', '.join(one.labels)}}}" if one.labels else ""
            yield f"| `{one.name}{labels}` | {one.kind} | {one.help} |\n"


def test_each_metric_is_listed_as_the_code_describes_it() -> None:
    _, _, rest = page("metrics.md").partition(BEGIN)
    made = "".join(metrics_table()) + "\n"
    assert rest.partition(END)[0] == made, "docs/metrics.md lacks the lines with a -"


def test_metrics_that_are_described_are_exported_and_no_others() -> None:
    vitals = Vitals(running=lambda: 1, slots=lambda: 1, clock_offset=lambda: 0.0)
    registry = make_registry(vitals, dict)
    PrometheusMetrics(registry, now=lambda: NOON)
    ledgers = CollectorRegistry(auto_describe=False)
    ledgers.register(LedgerCollector({}))

    exported = {
        (one.name, one.type, one.documentation)
        for one in [*registry.collect(), *ledgers.collect()]
        if not one.name.startswith("process_")
    }

    assert exported == {(one.family_name, one.kind.value, one.help) for one in CATALOGUE}


def test_every_action_of_the_log_says_what_happened_and_what_to_do() -> None:
    actions = page("reference/log-actions.md")
    rows = re.findall(r"(?m)^\| `([a-z._-]+)` \| [^|]+ \| ([^|]*) \| ([^|]*) \|$", actions)

    assert len(rows) > 100
    assert [row for row in rows if not all(text.strip() for text in row)] == []


def test_every_extra_has_a_row_that_says_what_it_is_for() -> None:
    table = page("operators.md").partition("| extra | for |")[2].partition("\n\n")[0]

    assert re.findall(r"(?m)^\| `(\w+)` \| .", table) == [*EXTRAS]


def test_every_setting_that_a_page_names_exists() -> None:
    said = {CONFIG, "CRON_TZ", *ATTEMPT_VARIABLES, *EVENT_VARIABLES}
    exist = {f"CRON_{name.upper()}" for name in Settings.declared()} | said
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]

    named = {name for text in pages for name in re.findall(r"\bCRON_[A-Z_]+[A-Z]\b", text)}
    assert {name for name in named - exist if name.removesuffix("_FILE") not in exist} == set()


RETRIES = page("reference/tasks.md").partition("## How a task is retried")[2].partition("\n## ")[0]


def test_the_example_of_policies_is_a_jobs_file(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", RETRIES, flags=re.DOTALL)
    path = tmp_path / "jobs.toml"
    path.write_text(example)

    file = read_jobs(path, policy=RetryPolicy())

    [task], [draft] = file.tasks, file.drafts
    assert draft.retry is not None
    assert retry_facts(draft.retry) == "3 runs, waits 1 min, 1 min, 2 min in all"
    assert sorted(task.policy.errors) == ["ECONNRESET", "KeyError", "TooManyRequests", "exit:75"]
    assert str(task.policy.strategy) == "waits:polite"


def test_each_policy_and_the_default_are_told() -> None:
    named = re.findall(r"`([\w-]+)`", RETRIES.replace("**", ""))

    assert {*BACKOFFS, *POLICIES} <= {*named}
    assert f"`{retry_facts(RetryPolicy())}`" in RETRIES


@pytest.mark.parametrize("name", BUILT_IN_CLASSES)
def test_what_a_class_keeps_is_told(name: str) -> None:
    [row] = re.findall(rf"\| `{name}` \|(.*)", RETRIES)
    policy, keep = BUILT_IN_CLASSES[name].retry, BUILT_IN_CLASSES[name].keep

    assert policy is not None
    assert row.split(",")[0].strip() == str(policy.attempts)
    told = "" if keep is None else f"{keep.done:,} done, {keep.failed:,} failed"
    assert row.split("|")[1].strip() == told


PYTHON = page("reference/python.md")


def listed(head: str) -> set[str]:
    """Give what the first column of a table names; its head is given."""
    _, _, table = PYTHON.partition(f"\n| {head} |")
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
def test_a_table_of_the_page_for_programs_names_all_that_there_is(
    head: str, names: set[str]
) -> None:
    assert listed(head) == names


def test_all_that_can_be_imported_is_named() -> None:
    assert [name for name in cronhare.__all__ if not re.search(rf"\b{name}\b", PYTHON)] == []
    assert {*cronhare.__all__} <= {*dir(cronhare)}
    assert all(getattr(cronhare, name).__name__ == name for name in cronhare.__all__)


def test_an_error_that_is_named_is_raised_as_what_the_page_says() -> None:
    _, _, table = PYTHON.partition("\n| it raises |")
    rows = re.findall(r"^\| `(\w+)`, an? `(\w+)`", table.partition("\n\n")[0], re.MULTILINE)

    assert len(rows) > 5
    for name, base in rows:
        assert issubclass(getattr(cronhare, name), getattr(builtins, base))


@pytest.mark.parametrize("function", [cron, every, at, Retry])
def test_each_option_of_times_and_retries_is_shown(function: Callable[..., object]) -> None:
    shown = re.findall(rf"`{function.__name__}\((.*?)\)`", PYTHON)
    options = parameters(function) - {"text", "interval", "moment", "attempts"}

    assert any(set(re.findall(r"(\w+)=", each)) >= options - {"jitter"} for each in shown)


def test_each_method_of_schedules_and_calls_is_named() -> None:
    [row] = [line for line in PYTHON.splitlines() if line.startswith("| `schedules` |")]
    calls = public(vars(Call)) - {"task", "params", "asked"}

    assert set(re.findall(r"`(\w+)`", row)) - {"schedules"} == public(vars(AppSchedules))
    assert {"bind", "enqueue", "aenqueue", "options"} >= calls
