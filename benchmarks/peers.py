"""The lists of Flower and of Django's admin, asked as ours are, in the same run.

Each is installed from the package index into an environment of its own, in the benchmark's folder;
BENCH_PEERS=FOLDER keeps these for the next run.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from figures import Figure
from full_ledger import FullLedger
from web_client import Answered, ask_often, free_port, served

#: Flower keeps tasks in its memory, and 10,000 of them unless it is told otherwise.
TASKS: Final = 100_000
RESULTS: Final = 1_000_000
SCHEDULES: Final = 100_000

_HERE: Final = Path(__file__).parent
_TABLE: Final = (
    "/tasks/datatable?draw=1&start=0&length=50&order[0][column]=7&order[0][dir]=desc"
    "&columns[7][data]=started&search[value]="
)
_FLOWER: Final = (
    "/tasks", _TABLE, f"{_TABLE}refused", f"{_TABLE}nothing", "/api/tasks?limit=50",
    "/workers", "/metrics",
)  # fmt: skip
_RESULTS: Final = "/admin/django_celery_results/taskresult/"
_BEAT: Final = "/admin/django_celery_beat/periodictask/"
_DJANGO: Final = (
    _RESULTS, f"{_RESULTS}?status__exact=FAILURE", f"{_RESULTS}?q=nothing", f"{_RESULTS}?p=5000",
    f"{_RESULTS}1000/change/", _BEAT, f"{_BEAT}?q=nothing",
)  # fmt: skip


def peers(ledger: FullLedger) -> list[Figure]:
    """Ask Flower, then Django's admin."""
    return [*_flower(ledger.folder), *_django(ledger.folder)]


def _flower(folder: Path) -> list[Figure]:
    port = free_port()
    command = [_python(folder, "flower", "flower"), str(_HERE / "peer_flower.py")]
    environment = {"FLOWER_UNAUTHENTICATED_API": "true"}
    with served([*command, str(port), str(TASKS)], port, folder, **environment) as pid:
        found = [ask_often(port, pid, address) for address in _FLOWER]
    return [_figure("Flower", each) for each in found]


def _django(folder: Path) -> list[Figure]:
    port = free_port()
    packages = ("django", "django-celery-results", "django-celery-beat")
    command = [_python(folder, "django", *packages), str(_HERE / "peer_django.py")]
    sizes = [str(folder), str(RESULTS), str(SCHEDULES)]
    said = folder / "server.log"
    said.unlink(missing_ok=True)
    with served([*command, str(port), *sizes], port, folder) as pid:
        headers = {"Cookie": said.read_text().strip().splitlines()[-1]}
        found = [ask_often(port, pid, address, headers) for address in _DJANGO]
    return [_figure("Django", each) for each in found]


def _python(folder: Path, name: str, *packages: str) -> str:
    home = Path(os.environ.get("BENCH_PEERS", folder)) / name
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return str(python)


def _figure(who: str, each: Answered) -> Figure:
    status = "" if each.status == 200 else f", HTTP {each.status}"
    return Figure(
        what=f"{who}: {each.address.partition('&order')[0]}", ours=each.median, unit="ms",
        note=f"p95 {each.p95:.0f} ms, CPU {each.cpu:.0f} ms, {each.bytes / 1024:.0f} KiB{status}",
    )  # fmt: skip
