"""How fast the cron engine is, beside croniter, cronsim and the algorithm of match-every-row.

    .venv/bin/python benchmarks/bench_cron.py

Everything is measured in this process, one engine after the other, in rounds, so that a busy
machine hurts all of them alike. Figures are medians of the rounds; each engine is asked the same.
"""

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import attrs
from caches import empty_caches
from croniter import croniter
from cronsim import CronSim
from rich.console import Console
from rich.table import Table
from samples import TWENTY_ZONES, distinct_texts, size

from cronhare.domain.cron import CronExpression

ROUNDS = size(7, 1)
ROUND_SECONDS = size(0.03, 0.0001)
ZONES = ("UTC", "America/New_York")
START = datetime(2026, 5, 5, 5, 5, tzinfo=UTC)
MANY = size(100_000, 200)

# From usual to sparse; croniter and cronsim understand all of them.
EXPRESSIONS = {
    "every 5 minutes": "*/5 * * * *",
    "daily": "30 2 * * *",
    "working days": "0 8-18/2 * * 1-5",
    "lists": "7,23,51 3-9 1,15 * *",
    "last day (L)": "0 0 L * *",
    "second Monday": "0 9 * * 1#2",
    "29 February": "0 0 29 2 *",
}

# Takes a number of steps; gives the seconds that they took, without what it had to prepare.
Chunk = Callable[[int], float]
STEPS = 16


@attrs.frozen
class Row:
    """What one question costs each engine, in seconds per answer; ours comes first."""

    question: str
    costs: dict[str, float]


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    console = Console(width=118)
    for name in ZONES:
        zone = ZoneInfo(name)
        for title, chunks in (("matches", match_chunks), ("next", next_chunks)):
            rows = [Row(what, medians(chunks(text, zone))) for what, text in EXPRESSIONS.items()]
            console.print(rates_table(f"{title}, {name}: answers per second", rows))
    for line in many_lines():
        console.print(line)


def match_chunks(text: str, zone: ZoneInfo) -> dict[str, Chunk]:
    """Ask about minutes spread over a day; croniter gets them in the zone, as it wants them."""
    compiled = CronExpression.parse(text)
    moments = [START + timedelta(minutes=90 * n) for n in range(STEPS)]
    walls = [moment.astimezone(zone) for moment in moments]

    def ours(_: int) -> float:
        began = time.perf_counter()
        for moment in moments:
            compiled.matches(moment, zone)
        return time.perf_counter() - began

    def theirs(_: int) -> float:
        began = time.perf_counter()
        for wall in walls:
            croniter.match(text, wall)
        return time.perf_counter() - began

    return {"cronhare": ours, "croniter.match": theirs}


def next_chunks(text: str, zone: ZoneInfo) -> dict[str, Chunk]:
    """Enumerate runs from one start, objects kept; `fresh` parses and answers once each time."""
    compiled = CronExpression.parse(text)
    wall = START.astimezone(zone)

    def ours(steps: int) -> float:
        moment: datetime | None = START
        began = time.perf_counter()
        for _ in range(steps):
            moment = compiled.next(moment, zone) if moment else START
        return time.perf_counter() - began

    def kept_croniter(steps: int) -> float:
        iterator = croniter(text, wall)
        began = time.perf_counter()
        for _ in range(steps):
            iterator.get_next(datetime)
        return time.perf_counter() - began

    def kept_cronsim(steps: int) -> float:
        iterator = CronSim(text, wall)
        began = time.perf_counter()
        for _ in range(steps):
            next(iterator)
        return time.perf_counter() - began

    def fresh_cronsim(steps: int) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            next(CronSim(text, wall))
        return time.perf_counter() - began

    return {
        "cronhare": ours,
        "croniter, kept": kept_croniter,
        "cronsim, kept": kept_cronsim,
        "cronsim, fresh": fresh_cronsim,
    }


def medians(chunks: dict[str, Chunk]) -> dict[str, float]:
    """Seconds per step, the median of rounds in which the engines take turns."""
    rounds: dict[str, list[float]] = {name: [] for name in chunks}
    for _ in range(ROUNDS):
        for name, chunk in chunks.items():
            spent, steps = 0.0, 0
            while spent < ROUND_SECONDS:
                spent += chunk(STEPS)
                steps += STEPS
            rounds[name].append(spent / steps)
    return {name: statistics.median(costs) for name, costs in rounds.items()}


def rates_table(title: str, rows: list[Row]) -> Table:
    """One row per expression: our rate, then each other's with how often ours is that."""
    table = Table(title=title, title_justify="left")
    first, *others = rows[0].costs
    for heading in ("expression", first, *others):
        table.add_column(heading, justify="left" if heading == "expression" else "right")
    for row in rows:
        table.add_row(row.question, f"{1 / row.costs[first]:,.0f}", *beside(row, first, others))
    ratios = [min(row.costs[other] / row.costs[first] for row in rows) for other in others]
    table.add_section()
    table.add_row("least ratio", "", *(f"x {ratio:,.1f}" for ratio in ratios))
    return table


def beside(row: Row, first: str, others: list[str]) -> Iterator[str]:
    for other in others:
        ratio = row.costs[other] / row.costs[first]
        yield f"{1 / row.costs[other]:,.0f}  x {ratio:,.0f}"


def many_lines() -> Iterator[str]:
    """100,000 distinct expressions: compile, plan, tick, and the memory that they hold."""
    texts = distinct_texts(MANY)
    zones = [ZoneInfo(TWENTY_ZONES[n % len(TWENTY_ZONES)]) for n in range(MANY)]
    yield f"[bold]{MANY:,} schedules with distinct expressions in {len(TWENTY_ZONES)} zones"

    compiling = seconds_of(lambda: compile_all(texts))
    yield f"compile, caches empty       {compiling:8.2f} s"
    compiled = compile_all(texts)
    planning = seconds_of(lambda: [c.next(START, z) for c, z in zip(compiled, zones, strict=True)])
    yield f"next of each                {planning:8.2f} s"
    yield f"compile and next            {compiling + planning:8.2f} s"

    ticking = seconds_of(
        lambda: [c.matches(START, z) for c, z in zip(compiled, zones, strict=True)]
    )
    sample = range(0, MANY, 100)
    walls = [START.astimezone(zones[n]) for n in sample]
    pairs = list(zip((texts[n] for n in sample), walls, strict=True))
    rows = seconds_of(lambda: [croniter.match(text, wall) for text, wall in pairs])
    every = rows * MANY / len(pairs)
    yield f"matches of each             {ticking:8.2f} s"
    yield (
        f"croniter.match of each      {every:8.2f} s  (the usual loop over all rows, from a sample"
        f" of {len(pairs):,}; x {every / ticking:,.0f})"
    )
    yield f"memory of the expressions   {megabytes_of(texts):8.1f} MB with all caches"


def compile_all(texts: list[str]) -> list[CronExpression]:
    return [CronExpression.parse(text) for text in texts]


def seconds_of(work: Callable[[], object]) -> float:
    """The median of three, each with empty caches and without the collector's pauses."""
    spent = []
    for _ in range(3):
        empty_caches()
        gc.collect()
        gc.disable()
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
        gc.enable()
    return statistics.median(spent)


def megabytes_of(texts: list[str]) -> float:
    """What the compiled expressions and every cache hold after a next of each."""
    empty_caches()
    gc.collect()
    tracemalloc.start()
    kept = compile_all(texts)
    for compiled in kept:
        compiled.next(START, ZoneInfo("America/New_York"))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / 1e6


if __name__ == "__main__":
    main()
