"""A program beside `cronhare up --app`: what it enqueues and puts is run by the app's functions."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.shell import PROGRAM, clean_environment

pytestmark = pytest.mark.integration

SHOP = """
import asyncio
from dataclasses import dataclass
from cronhare import App, Context, PermanentError

app = App("shop")

@dataclass
class Refreshed:
    tokens: int
    key: str

@app.task(executor="fork")
def refresh(ctx: Context, region: str, limit: int = 10) -> Refreshed:
    return Refreshed(len(region) * limit, ctx.key)

@app.task(executor="pool")
def chain(orders: list[int]) -> int:
    \"\"\"Enqueues others from within a task.\"\"\"
    return refresh.bind("eu", limit=len(orders)).enqueue(key="chained").id

@app.task
async def refuse(order: int) -> None:
    raise PermanentError(f"order {order} is refused")
"""

PROGRAM_OF_USERS = """
import asyncio
import time
from cronhare import Handle, RunFailed, every
from shop import Refreshed, app, chain, refresh, refuse

handle = refresh.bind("eu").enqueue(key="first")
assert handle.result(timeout=60) == Refreshed(20, "task-first"), handle.result()
try:
    asyncio.run(refuse.bind(order=7).enqueue().aresult(timeout=60))
except RunFailed as error:
    assert "order 7 is refused" in str(error), error
later = refresh.bind("us", limit=1).enqueue(delay="1s")
began = time.monotonic()
assert later.result(timeout=60).tokens == 2
assert time.monotonic() - began > 0.9

inner = chain.bind(orders=[1, 2, 3]).enqueue().result(timeout=60)
chained = refresh.bind("eu", limit=3).enqueue(key="chained")
assert chained.id == inner
assert chained.result(timeout=60).tokens == 6

app.schedules.put("probe", refresh.bind("us"), every("1s"))
while (last := app.schedules.get("probe").last_run) is None or last.state != "succeeded":
    assert time.monotonic() - began < 60
    time.sleep(0.1)
while True:
    try:
        app.schedules.delete("probe", with_history=True)
        break
    except ValueError:  # a run is on its way
        assert time.monotonic() - began < 60
        time.sleep(0.1)
print("all is well")
"""


def test_a_program_is_answered_what_functions_return(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "program.py").write_text(PROGRAM_OF_USERS)
    environment = clean_environment() | {"CRON_DATABASE_URL": f"sqlite:///{tmp_path}/shop.db"}
    assert not subprocess.call([PROGRAM, "db", "upgrade"], env=environment)
    log = (tmp_path / "log").open("wb")
    up = subprocess.Popen(
        [PROGRAM, "up", "--app", "shop:app", "--no-web"],
        cwd=tmp_path,
        env=environment,
        stdout=log,
        stderr=log,
    )
    try:
        ended = subprocess.run(
            [sys.executable, "program.py"],
            check=False,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(60)
        log.close()
    assert ended.stdout == "all is well\n", ended.stderr + (tmp_path / "log").read_text()
