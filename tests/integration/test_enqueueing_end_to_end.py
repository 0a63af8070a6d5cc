"""A program beside `cronhare up --app`, as `examples/fastapi` is one: what it enqueues is run."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copytree, ignore_patterns

import httpx
import pytest

from tests.integration.shell import PROGRAM, Shell, clean_environment
from tests.services.finding import free_port, wait_until
from tests.services.pythons import ROOT

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


@contextmanager
def running(folder: Path, *command: str) -> Iterator[None]:
    """Run a process of the example, which ends well on SIGTERM; what it says is in a log."""
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=clean_environment(), stdout=file, stderr=file
        )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) in {0, -signal.SIGTERM}, log.read_text()
    finally:
        process.kill()
        process.wait()


def test_a_program_is_answered_what_functions_return(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write(SHOP, "shop.py")
    shell.write(PROGRAM_OF_USERS, "program.py")
    assert shell("db", "upgrade").status == 0
    with running(tmp_path, str(PROGRAM), "up", "--app", "shop:app", "--no-web"):
        ended = subprocess.run(
            [sys.executable, "program.py"],
            check=False,
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert ended.stdout == "all is well\n", ended.stderr + (tmp_path / "cronhare.log").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fastapi") / "example"
    copytree(ROOT / "examples" / "fastapi", folder, ignore=ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    """A client of the API, whose start would say that the ledger is missing: it is made before."""
    shell, port = Shell(folder), free_port()
    assert shell("db", "upgrade").status == 0
    uvicorn = (sys.executable, "-m", "uvicorn", "shop.api:api", "--port", str(port))
    with ExitStack() as stack:
        stack.enter_context(
            running(folder, str(PROGRAM), "up", "--app", "shop.jobs:app", "--no-web")
        )
        stack.enter_context(running(folder, *uvicorn))
        client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}"))
        wait_until(lambda: is_there(client), seconds=60, what="the API's start")
        yield client


def is_there(client: httpx.Client) -> bool:
    try:
        return client.get("/openapi.json").is_success
    except httpx.TransportError:
        return False


def test_an_order_is_confirmed_by_a_run_that_is_committed_with_it(client: httpx.Client) -> None:
    placed = client.post("/orders", json={"customer": "ada", "item": "a spade"})
    assert placed.status_code == 201
    path = f"/orders/{placed.json()['order']}"

    wait_until(
        lambda: client.get(path).json()["confirmed_at"] is not None,
        seconds=60,
        what="the confirmation",
    )


def test_each_customer_has_one_schedule_which_changes_runs_and_goes(
    client: httpx.Client, folder: Path
) -> None:
    path, shell = "/customers/ada/digest", Shell(folder)

    first = client.put(path, json={"hour": 8}).json()
    second = client.put(path, json={"hour": 9, "timezone": "UTC"}).json()
    ran = shell("run", "digest-ada", "--wait")
    deleted = client.delete(path).status_code

    assert first == {"schedule": "0 8 * * *", "timezone": "Europe/Berlin"}
    assert second == {"schedule": "0 9 * * *", "timezone": "UTC"}
    assert (ran.status, deleted) == (0, 204), ran
    assert shell("schedules", "show", "digest-ada").status != 0
