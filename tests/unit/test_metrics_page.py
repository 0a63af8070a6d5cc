"""The metrics' page, the alert rules and the dashboard against the names that are exported."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from prometheus_client import CollectorRegistry

from cronhare.adapters.prometheus.catalogue import CATALOGUE, Source
from cronhare.adapters.prometheus.metrics import LedgerCollector, PrometheusMetrics
from cronhare.entrypoints.probes import make_registry
from cronhare.entrypoints.vitals import Vitals
from tests.unit.executions import NOON

ROOT = Path(__file__).parents[2]
BEGIN = "<!-- made of src/adapters/prometheus/catalogue.py: tests/unit/test_metrics_page.py -->\n"
END = "<!-- end -->"


def table() -> Iterator[str]:
    order = list(Source)
    metrics = sorted(CATALOGUE, key=lambda one: order.index(one.source))
    for source, some in groupby(metrics, key=lambda one: one.source):
        yield f"\nOf {source.value}:\n\n| metric | type | what it is |\n| --- | --- | --- |\n"
        for one in some:
            labels = f"{{{', '.join(one.labels)}}}" if one.labels else ""
            yield f"| `{one.name}{labels}` | {one.kind} | {one.help} |\n"


def test_the_page_lists_each_metric_as_the_code_describes_it() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    _, _, rest = page.partition(BEGIN)
    made = "".join(table()) + "\n"
    assert rest.partition(END)[0] == made, "docs/metrics.md lacks the lines with a -"


def test_what_is_described_is_exported_and_nothing_else() -> None:
    vitals = Vitals(running=lambda: 1, slots=lambda: 1, clock_offset=lambda: 0.0)
    registry = make_registry(vitals, dict)
    PrometheusMetrics(registry, now=lambda: NOON)
    ledgers = CollectorRegistry(auto_describe=False)
    ledgers.register(LedgerCollector({}))

    families = [*registry.collect(), *ledgers.collect()]
    exported = {
        (one.name, one.type, one.documentation)
        for one in families
        if not one.name.startswith("process_")
    }

    described = {(one.family_name, one.kind.value, one.help) for one in CATALOGUE}
    assert exported == described
