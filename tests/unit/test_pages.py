"""What pages of `docs` say against the code: operations, bounds, metrics, log actions, names."""

import inspect
import re
import runpy
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import cronhare
from cronhare import App, Context, Handle
from cronhare.adapters.extras import EXTRAS
from cronhare.adapters.jobs.reader import read_jobs
from cronhare.adapters.prometheus.catalogue import CATALOGUE, Source
from cronhare.adapters.prometheus.metrics import LedgerCollector, PrometheusMetrics
from cronhare.application.administration.views.values import retry_facts
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.work import ATTEMPT_VARIABLES, EVENT_VARIABLES, Executor
from cronhare.entrypoints.probes import make_registry
from cronhare.entrypoints.python.tasks import Options, TaskDecorator
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.settings.sources import CONFIG
from cronhare.entrypoints.vitals import Vitals
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
