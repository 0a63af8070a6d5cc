"""`cronhare web` as a process, asked over HTTP, and pages that stay open beside it."""

import http.client
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import attrs
from samples import size

RUNS: Final = size(15, 0)

#: After so many seconds an address is asked no more.
ENOUGH: Final = 3.0

#: A server takes at most so long to begin, and to answer.
PATIENCE: Final = size(600, 60)


@attrs.frozen
class Answered:
    """How an address was answered: milliseconds, and bytes; *status* is what HTTP says.

    *cpu* is what an answer cost the server's process, in milliseconds as well.
    """

    address: str
    status: int
    median: float
    p95: float
    cpu: float
    bytes: int


def ask_often(port: int, pid: int, address: str, headers: dict[str, str] | None = None) -> Answered:
    """Ask an address again and again over one connection; the first time is not counted."""
    times = list[float]()
    cpu = cpu_of_process(pid)
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        while len(times) <= RUNS and (len(times) < 2 or sum(times) < ENOUGH * 1_000):
            began = time.perf_counter()
            connection.request("GET", address, headers=headers or {})
            answer = connection.getresponse()
            body = answer.read()
            times.append((time.perf_counter() - began) * 1_000)
            if answer.status >= http.HTTPStatus.BAD_REQUEST:
                break
    counted = sorted(times[1:] or times)
    p95 = counted[min(len(counted) - 1, round(len(counted) * 0.95))]
    each = (cpu_of_process(pid) - cpu) * 1_000 / len(times)
    return Answered(address, answer.status, statistics.median(counted), p95, each, len(body))


def cpu_of_process(pid: int) -> float:
    """Give the seconds of CPU that a process has had, in hundredths."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """Find a port that nobody listens on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        port: int = found.getsockname()[1]
    return port


@contextmanager
def served(command: list[str], port: int, folder: Path, **environment: str) -> Iterator[int]:
    """Run a server until the end of the block; gives its process id once it answers."""
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=log, stderr=log, cwd=folder
        )
        try:
            _await(process, port, folder / "server.log")
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def cronhare_web(url: str, folder: Path) -> Iterator[tuple[int, int]]:
    """Run `cronhare web`; gives its port and its process id."""
    port = free_port()
    (folder / "jobs.toml").write_text(_JOBS)
    command = [str(Path(sys.executable).with_name("cronhare")), "web", "--jobs", "jobs.toml"]
    environment = {
        "CRON_DATABASE_URL": url,
        "CRON_BROKER_URL": "memory://",
        "CRON_WEB_ADDRESS": f"127.0.0.1:{port}",
    }
    with served(command, port, folder, **environment) as pid:
        yield port, pid


_JOBS: Final = """\
[tasks.backup-001]
type = "worker"
id = 101
command = ["/bin/true"]
"""

#: As `static/live.js` does in a browser.
_PAGE: Final = """\
import http.client, sys, threading, time
port, count, address, every = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
def stay():
    connection, first = http.client.HTTPConnection("127.0.0.1", port), True
    while True:
        headers = {"Accept": "text/html"} if first else {"Accept": "text/html", "X-Live": "1"}
        connection.request("GET", address, headers=headers)
        answer = connection.getresponse()
        answer.read()
        if first:
            print(f"{answer.status}\\n", end="", flush=True)  # in one piece: others print beside it
        first = False
        time.sleep(every)
for _ in range(count):
    threading.Thread(target=stay, daemon=True).start()
sys.stdin.read()
"""

#: Seconds after which an open page asks for itself again.
_EVERY: Final = 2


@contextmanager
def open_pages(port: int, count: int, address: str) -> Iterator[None]:
    """Have pages open, in another process, that ask for themselves again and again."""
    command = [sys.executable, "-c", _PAGE, str(port), str(count), address, str(_EVERY)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as pages:
        assert pages.stdout is not None
        try:
            for _ in range(count):
                status = pages.stdout.readline().strip()
                assert status == "200", f"{address} is answered {status}"
            yield
        finally:
            pages.kill()


def _await(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the server does not answer:\n{log.read_text()[-4_000:]}")
