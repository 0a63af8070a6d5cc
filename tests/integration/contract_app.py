"""Functions that do to their executor what commands do to a warden."""

import asyncio
import atexit
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from cronhare import App, Cancelled, Context, PermanentError, Snooze

app = App("contract")


@dataclass
class Sum:
    total: int


@app.task
def add(ctx: Context, a: int, b: int = 2) -> Sum:
    print(f"adding {a}")
    print("for", ctx.schedule, file=sys.stderr)
    ctx.log.info("attempt %s", ctx.attempt)
    logging.getLogger("shop").info("added")
    ctx.progress(0.5, "half")
    return Sum(a + b)


@app.task(name="told", aliases=["was.told"])
def told(ctx: Context) -> dict[str, object]:
    return {
        "params": sys.stdin.read().strip(),
        "due": ctx.due_at.isoformat(),
        "attempt": ctx.attempt,
        "key": ctx.key,
        "fence": ctx.fence,
        "missed": ctx.missed,
        "schedule": ctx.schedule,
        "id": ctx.execution_id,
        "cwd": str(Path.cwd()),
        "region": os.environ.get("REGION"),
        "ledger": os.environ.get("CRON_DATABASE_URL"),
        "smtp": os.environ.get("CRON_SMTP_URL"),
        "session": os.getsid(0) == os.getpid(),
        "threads": threading.active_count(),
        "mask": [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "pipe": signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN,
        "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "descriptors": sorted(int(each.name) for each in Path("/proc/self/fd").iterdir()),
        "random": random.random(),
    }


@app.task
def fails(message: str) -> None:
    raise ConnectionRefusedError(111, message)


@app.task
def refuses() -> None:
    raise PermanentError("never", code="E42")


@app.task
def later() -> Snooze:
    return Snooze("90s")


@app.task
async def waits(ready: str) -> None:
    try:
        write(ready, "1")
        await asyncio.sleep(300)
    finally:
        write(f"{ready}.end", "1")


@app.task
def renews(ctx: Context, place: str) -> None:
    until(Path(place, "on"))
    ctx.progress(0.5)
    until(Path(place, "end"))


@app.task
def hangs(ctx: Context, ready: str) -> None:
    print("begun")
    try:
        write(ready, str(os.getpid()))
        time.sleep(300)
    except Cancelled:
        time.sleep(0.1)
        write(f"{ready}.end", f"cancelled: {ctx.cancelled}")
        raise


@app.task
def stubborn(ready: str) -> None:
    """Ends of no signal but SIGKILL."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write(ready, f"{os.getpid()} {os.getppid()}")
    while True:
        time.sleep(0.05)


@app.task
def family(seconds: str, ready: str, ends: bool) -> None:
    """Leaves every kind of relative behind, those included that never exec."""
    subprocess.Popen(["sleep", seconds])
    subprocess.Popen(["sleep", seconds], start_new_session=True)
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in (0, 1, 2, 3):
                os.close(fd)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(writer, str(os.getpid()).encode())
            time.sleep(300)
        os._exit(0)
    daemon = os.read(reader, 100).decode()
    write(ready, f"{os.getpid()} {os.getppid()} {daemon} {os.environ['CRON_PARAMS_FILE']}")
    if not ends:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(300)


@app.task
def dies(signum: int) -> None:
    os.kill(os.getpid(), signum)


@app.task
def signals(signum: int) -> None:
    """Sends a signal to what watches over it."""
    os.kill(os.getppid(), signum)
    time.sleep(0.2)


@app.task
def exits(code: int, by_os: bool) -> None:
    print("last words", end="")
    if by_os:
        os._exit(code)
    sys.exit(code)


@app.task
def spoils(place: str) -> None:
    """Leaves a changed process."""
    os.chdir(place)
    os.environ["REGION"] = "spoilt"
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.closerange(0, 1000)


@app.task
def ends_late() -> None:
    """Its work goes on in a thread, which an interpreter waits for; then its handlers run."""
    atexit.register(lambda: print("handlers"))
    threading.Timer(0.1, lambda: print("thread")).start()


def until(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def write(path: str, text: str) -> None:
    """Write it all at once, for whoever waits for the file."""
    Path(f"{path}.new").write_text(text)
    Path(f"{path}.new").rename(path)
