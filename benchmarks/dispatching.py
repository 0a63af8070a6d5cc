"""What a scheduler does: plan what was edited, rest while nothing is due, dispatch what is."""

import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from statistics import median
from zoneinfo import ZoneInfo

from caches import empty_caches
from croniter import croniter
from figures import Figure, median_of, seconds_of
from original_algorithm import OriginalScheduler, Row
from rig import Ledgers, ShiftedClock, opened
from samples import BUSY, LIMIT, QUIET, TRUE, TWENTY_ZONES, WRITTEN, distinct_texts, size

from cronhare.adapters.memory.broker import MemoryBroker
from cronhare.adapters.system.clock import SystemClock
from cronhare.domain.schedules.draft import ScheduleDraft, compile_schedule
from cronhare.domain.schedules.planning import FULL_COMPARISON, Planned, plan
from cronhare.domain.schedules.schedule import Schedule
from cronhare.entrypoints.processes.scheduler import scheduler_round
from tests.frozen_clock import FrozenClock

MANY = size(100_000, 60)
FEW = size(10_000, 60)
RUNS = size(5, 1)

#: How many concurrency keys 10,000 schedules share, each with a limit of 5; and how much longer
#: their dispatch may take than without.
KEYS = size(
    {"each with a key of its own": FEW, "with 300 keys": 300, "all with one key": 1},
    {"all with one key": 1},
)
DEARER = 1.5

#: The idle loop is watched for so long; its cost is then told for a minute.
WATCHED_SECONDS = size(20.0, 0.5)

#: The original algorithm is let loose on every so many-th row, and on so many claims.
EVERY = 10
CLAIMS = size(2_000, 50)


def planning(ledgers: Ledgers) -> list[Figure]:
    """Decide when 100,000 edited schedules in twenty zones are due next."""
    texts = distinct_texts(MANY)
    edited = [
        ScheduleDraft(
            name=f"job-{number:06d}",
            task=TRUE.ref,
            schedule=text,
            timezone=TWENTY_ZONES[number % len(TWENTY_ZONES)],
        )
        for number, text in enumerate(texts)
    ]
    understood = [_understood(draft) for draft in edited]
    compiled = median_of(3, lambda: seconds_of(lambda: _plan(understood)))
    from_text = median_of(3, lambda: _plan_from_text(edited))
    theirs = seconds_of(lambda: _next_by_croniter(edited[::EVERY])) * EVERY
    sample = f"croniter's get_next, from {MANY // EVERY:,} rows"
    with ledgers.copy(MANY, busy=FEW) as path, opened(path, FrozenClock(QUIET)) as container:
        again = seconds_of(lambda: container.dispatcher().tick(QUIET))
    first = ledgers.planning_seconds[MANY, FEW, 0]
    return [
        Figure(what="plan 100,000, already compiled", ours=compiled, unit="s", goal=3.0),
        Figure(
            what="plan 100,000, from text", ours=from_text, unit="s", goal=3.0, theirs=theirs,
            note=f"caches empty; {sample}",
        ),
        Figure(what="plan a table of 100,000, first time", ours=first, unit="s", note="on SQLite"),
        Figure(what="compare 100,000 rows, none edited", ours=again, unit="s",
               note="at the start, and every 10 minutes"),
    ]  # fmt: skip


def idle(ledgers: Ledgers) -> list[Figure]:
    """Rest beside 100,000 schedules of which none is due: what a minute of it costs."""
    with ledgers.copy(MANY, busy=FEW) as path:
        clock = ShiftedClock(QUIET)
        with opened(path, clock) as container:
            loop = scheduler_round(container)
            comparing = _cpu_of(loop.round)
            rounds, began = 0, time.process_time()
            ends = clock.monotonic() + WATCHED_SECONDS
            while (left := ends - clock.monotonic()) > 0:
                time.sleep(min(loop.round(), left))
                rounds += 1
            watched = time.process_time() - began
        theirs = _original_minute_cpu(path)
    minute = timedelta(minutes=1)
    share = comparing * (minute / FULL_COMPARISON)
    cpu = watched * minute.total_seconds() / WATCHED_SECONDS + share
    return [
        Figure(
            what="CPU of an idle minute, 100,000 schedules", ours=cpu, unit="s", goal=0.05,
            theirs=theirs,
            note=f"{WATCHED_SECONDS:.0f} s watched; {share * 1e3:.0f} ms of it for comparing all"
            f" rows; theirs from {MANY // EVERY:,} rows",
        ),
        Figure(what="a round in which nothing is due", ours=watched / rounds * 1e3, unit="ms"),
    ]  # fmt: skip


def due(ledgers: Ledgers) -> list[Figure]:
    """Dispatch what is due in one minute: claimed, published, and marked so."""
    theirs_looking, theirs_each = _original_dispatch(ledgers)
    few = median_of(RUNS, lambda: _dispatch_seconds(ledgers, FEW))
    many = _dispatch_seconds(ledgers, MANY)
    sample = f"theirs from {MANY // EVERY:,} rows and {CLAIMS:,} claims"
    return [
        Figure(
            what="dispatch 10,000 due, of 100,000", ours=few, unit="s", goal=2.0,
            theirs=theirs_looking + FEW * theirs_each,
            note=f"median of {RUNS}; {FEW / few:,.0f}/s; {sample}",
        ),
        Figure(
            what="dispatch 100,000 due, of 100,000", ours=many, unit="s",
            theirs=theirs_looking + MANY * theirs_each,
            note=f"one run; {MANY / many:,.0f}/s",
        ),
    ]  # fmt: skip


def keyed(ledgers: Ledgers) -> list[Figure]:
    """Dispatch 10,000 that share concurrency keys, beside as many that have none."""
    return beside_plain(
        lambda keys: _dispatch_seconds(ledgers, FEW, count=FEW, keys=keys), where="SQLite"
    )


def beside_plain(measure: Callable[[int], float], *, where: str) -> list[Figure]:
    """Measure dispatching with so many keys, each time right after the same without any."""
    figures = list[Figure]()
    for what, keys in KEYS.items():
        pairs = [(measure(0), measure(keys)) for _ in range(RUNS)]
        plain, seconds = (median(times) for times in zip(*pairs, strict=True))
        ratio = median(with_key / without for without, with_key in pairs)
        figures.append(
            Figure(
                what=f"{where}: dispatch 10,000, {what}", ours=seconds, unit="s",
                goal=DEARER * plain,
                note=f"without keys {plain:.2f} s; ratio {ratio:.2f}, median of {RUNS} pairs",
            )
        )  # fmt: skip
    return figures


def _understood(draft: ScheduleDraft) -> Schedule:
    return compile_schedule(draft, id=1, changed_at=WRITTEN)


def _plan_from_text(edited: Iterable[ScheduleDraft]) -> float:
    empty_caches()
    return seconds_of(lambda: _plan(map(_understood, edited)))


def _plan(schedules: Iterable[Schedule]) -> None:
    for schedule in schedules:
        plan(Planned(schedule=schedule, edited=True), QUIET)


def _next_by_croniter(edited: Iterable[ScheduleDraft]) -> None:
    for draft in edited:
        assert draft.schedule is not None
        croniter(draft.schedule, WRITTEN.astimezone(ZoneInfo(draft.timezone))).get_next()


def _cpu_of(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _original_minute_cpu(path: Path) -> float:
    """What the original algorithm spends on a minute in which nothing matches."""
    with OriginalScheduler(path, MemoryBroker(SystemClock())) as original:
        began = time.process_time()
        rows = original.load()
        loading = time.process_time() - began
        assert not original.matching(rows[::EVERY], QUIET)
    return loading + (time.process_time() - began - loading) * EVERY


def _original_dispatch(ledgers: Ledgers) -> tuple[float, float]:
    """Seconds in which all rows are looked at, and those that each claim and publish takes."""
    with (
        ledgers.copy(MANY, busy=FEW) as path,
        OriginalScheduler(path, MemoryBroker(SystemClock())) as original,
    ):
        rows: list[Row] = []
        loading = seconds_of(lambda: rows.extend(original.load()))
        matching = seconds_of(lambda: original.matching(rows[::EVERY], BUSY)) * EVERY
        matched = original.matching(rows[: CLAIMS + 1], BUSY)[:CLAIMS]
        claiming = seconds_of(lambda: original.dispatch(matched, BUSY))
    return loading + matching, claiming / len(matched)


def _dispatch_seconds(ledgers: Ledgers, busy: int, *, count: int = MANY, keys: int = 0) -> float:
    """Let a scheduler that is at work already meet a busy minute."""
    clock = FrozenClock(QUIET)
    with ledgers.copy(count, busy=busy, keys=keys) as path, opened(path, clock) as container:
        dispatcher = container.dispatcher()
        dispatcher.tick(QUIET)
        clock.move_to(BUSY)
        ticks = []
        seconds = seconds_of(lambda: ticks.append(dispatcher.tick(BUSY)))
        begin = min(busy, keys * LIMIT) if keys else busy  # the others are held back
        assert [tick.published for tick in ticks] == [begin], ticks
    return seconds
