"""What a message costs the worker by aio-pika, by the channel beneath it, and by cronhare.

    .venv/bin/python benchmarks/bench_amqp.py

A private RabbitMQ is started for it and thrown away. The ways take turns, so that a busy machine
hurts all of them alike; figures are medians. Where aio-pika's own layer costs more than a
twentieth, the adapter goes beneath (ADR 41).
"""

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from amqp_clients import CONSUMING, PUBLISHING, Cost, Task, Way, envelope

from cronhare.adapters.rabbitmq.broker import PikaBroker
from cronhare.domain.topology import MAIN_QUEUE
from tests.services import rabbitmq

ROUNDS = 5
MANY = 4_000


@attrs.frozen
class Row:
    """One line of the table: what every way took in each round."""

    what: str
    many: int
    costs: dict[str, list[Cost]]

    def rate(self, way: str) -> float:
        """Messages a second."""
        return self.many / statistics.median(cost.seconds for cost in self.costs[way])

    def cpu(self, way: str) -> float:
        """Seconds of CPU for one message."""
        return statistics.median(cost.cpu for cost in self.costs[way]) / self.many


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="cronhare-bench-") as folder,
        rabbitmq.server(Path(folder)) as server,
    ):
        rows = [
            _measured(server, "deliveries acked, prefetch 100", CONSUMING, 100, fill=_fill),
            _measured(server, "deliveries acked, prefetch 1,000", CONSUMING, 1_000, fill=_fill),
            _measured(server, "publishes confirmed, one at a time", PUBLISHING, 1, many=1_000),
            _measured(server, "publishes confirmed, 100 at a time", PUBLISHING, 100),
        ]
    Console(width=118).print(_table(rows))


def _measured(
    server: rabbitmq.Server,
    what: str,
    ways: Mapping[str, Way],
    at_once: int,
    *,
    many: int = MANY,
    fill: Callable[[PikaBroker, int], None] = lambda _broker, _many: None,
) -> Row:
    row = Row(what, many, {name: [] for name in ways})
    for _ in range(ROUNDS):
        for name, way in ways.items():
            with server.vhost() as url:
                broker = PikaBroker(url)
                broker.declare([MAIN_QUEUE])
                fill(broker, many)
                broker.close()
                gc.collect()
                row.costs[name].append(asyncio.run(way(Task(url, many, at_once))))
    return row


def _fill(broker: PikaBroker, many: int) -> None:
    broker.publish([envelope(number) for number in range(many)])


def _table(rows: list[Row]) -> Table:
    table = Table(title="messages a second, and CPU for each", title_justify="left")
    table.add_column("what")
    for heading in ("aio-pika", "beneath", "its layer costs", "cronhare"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        layer = row.cpu("aio-pika") / row.cpu("beneath") - 1
        said = {way: f"{row.rate(way):,.0f}/s, {row.cpu(way) * 1e6:,.0f} µs" for way in row.costs}
        table.add_row(
            row.what, said["aio-pika"], said["beneath"], f"{layer:+.0%}", said["cronhare"]
        )
    return table


if __name__ == "__main__":
    main()
