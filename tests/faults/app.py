"""The arena's tasks as functions of an app: they do what the scripts in `jobs.py` do."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cronhare import App, Context
from tests.faults.jobs import GROUPS, hold

EFFECTS, HOLDS = Path(os.environ["EFFECTS"]), Path(os.environ["HOLDS"])
RUNNING = HOLDS / "running"
EXECUTOR = os.environ["FAULTS_EXECUTOR"]

app = App("faults")


@contextmanager
def run(ctx: Context, name: str) -> Iterator[None]:
    """Write down that it began, and who runs it as long as it does: no environment tells that."""
    id_ = ctx.execution_id or 0
    with EFFECTS.open("a") as effects:
        effects.write(f"{id_} {ctx.attempt}\n")
    mine = RUNNING / f"{os.getpid()} {id_} {ctx.attempt}"
    mine.touch()
    try:
        yield
    finally:
        mine.unlink()
    if ctx.attempt == 1 and name not in GROUPS and (id_ + id_ // 3) % 3 == 0:
        raise OSError("each third of them fails at first")


def is_held(ctx: Context, name: str) -> bool:
    """Tell whether a run of a held group may not end yet."""
    return ctx.attempt == 1 and hold(HOLDS, name).exists()


def add(name: str, tenths: int) -> None:
    """Register a task that works so long, and as long as it is held."""

    async def later(ctx: Context) -> None:
        with run(ctx, name):
            await asyncio.sleep(tenths / 10)
            while is_held(ctx, name):  # noqa: ASYNC110 - it waits for a file
                await asyncio.sleep(0.2)

    def now(ctx: Context) -> None:
        with run(ctx, name):
            time.sleep(tenths / 10)
            while is_held(ctx, name):
                time.sleep(0.2)

    app.task(name=name)(later if EXECUTOR == "async" else now)


for number in range(1, 21):
    add(f"s{number}", number % 10)
for group in GROUPS:
    add(group, 0)
