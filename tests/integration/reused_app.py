"""Functions that try what they can do to the child that runs others after or beside them."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from cronhare import App, Context, PermanentError, Snooze, task

app = App("reused")
kept: list[object] = []


@app.task(executor="pool")
def who() -> dict[str, object]:
    return {"pid": os.getpid(), "rss": _rss(), "env": os.environ.get("LEFT")}


@app.task(executor="pool")
def leaks(size: int) -> int:
    kept.append(bytearray(os.urandom(1024)) * (size // 1024))
    return _rss()


@app.task(executor="pool")
def leaves(what: str) -> int:
    """Leaves something behind in its process."""
    match what:
        case "a thread":
            threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
        case "an open file":
            kept.append(Path("/dev/null").open())  # noqa: SIM115 - on purpose
        case "a folder":
            os.chdir("/")
        case "a handler":
            signal.signal(signal.SIGUSR1, lambda *_: None)
        case "a timer":
            signal.setitimer(signal.ITIMER_REAL, 300)
        case "limits" | "an environment":
            _spoil(what)
        case "a variable":
            os.environ["LEFT"] = "x"
        case "a process":
            subprocess.Popen(["sleep", "300"])
        case "a fork":
            os.fork()
    return os.getpid()


@app.task(executor="pool")
def ends_its_process_later(after: float) -> int:
    timer = threading.Timer(after, os._exit, (0,))
    timer.daemon = True
    timer.start()
    return os.getpid()


@app.task(executor="pool")
def naps(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@app.task(executor="pool")
def works(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@app.task(executor="pool")
def measures(text: str) -> int:
    return len(text)


@app.task(executor="pool")
def prints(number: int, begun: str) -> None:
    file = os.open(begun, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(file, f"{os.getpid()}\n".encode())
    os.close(file)
    works(0.001)
    print(number)


@app.task(executor="pool")
def grows(ready: str) -> None:
    kept.append(bytearray(200 * 1024 * 1024))
    Path(ready).write_text("1")
    time.sleep(300)


@app.task(executor="async")
async def told(ctx: Context, a: int, b: int = 2) -> dict[str, object]:
    print(f"adding {a}")
    print("for", task.schedule(), file=sys.stderr)
    ctx.progress(0.5, "half")
    await asyncio.sleep(0.01)
    key, params, id_ = task.execution_key(), task.params(), task.execution_id()
    return {"total": a + b, "key": key, "params": params, "id": id_, "pid": os.getpid()}


@app.task(executor="async")
async def fails(how: str) -> object:
    await asyncio.sleep(0)
    match how:
        case "error":
            raise ConnectionRefusedError(111, "away")
        case "refused":
            raise PermanentError("never")
        case "exit":
            sys.exit(3)
        case "snooze":
            return Snooze("90s")
        case "cancelled":
            raise asyncio.CancelledError
    return None


@app.task(executor="async")
async def waits(seconds: float, ready: str = "") -> str:
    try:
        if ready:
            _say(ready)
        await asyncio.sleep(seconds)
    finally:
        print("cleaned up")
    return "done"


@app.task(executor="async")
async def stubborn(ready: str) -> None:
    _say(ready)
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(300)


@app.task(executor="async")
async def blocks(ready: str) -> None:
    await asyncio.sleep(0.2)
    _say(ready)
    time.sleep(300)  # noqa: ASYNC251 - on purpose


@app.task(executor="async")
async def leaves_a_task(what: str) -> None:
    """Leaves a task behind that ends the process, or blocks it."""

    async def goes_on() -> None:
        await asyncio.sleep(0.5)
        if what == "blocks":
            time.sleep(300)  # noqa: ASYNC251 - on purpose
        os._exit(int(what))

    kept.append(asyncio.create_task(goes_on()))


@app.task(executor="async")
async def dies() -> None:
    await asyncio.sleep(0.2)
    os.kill(os.getpid(), signal.SIGSEGV)


@app.task(executor="async")
async def floods(count: int) -> None:
    for _ in range(count):
        print("x" * 999)
        await asyncio.sleep(0)


def _spoil(what: str) -> None:
    if what == "limits":
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    else:
        os.environ = {"LEFT": "x"}  # type: ignore[assignment] # noqa: B003 - on purpose


def _say(ready: str) -> None:
    Path(ready).write_text(str(os.getpid()))


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
