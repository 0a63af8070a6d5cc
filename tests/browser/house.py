"""A machine with `cronhare up`, and tasks to look at."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import connect

import attrs

from tests.browser.past import write_past
from tests.integration.shell import PROGRAM, Shell, clean_environment
from tests.integration.web import Site
from tests.services.finding import free_port, wait_until

SECONDS = 30

#: What nobody's output, name, error or parameter may do.
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>\'"</textarea>'

_TALKS = """
import sys, time
from cronhare import task

def main(params):
    steps = int(params.get("steps", 4))
    for step in range(steps):
        print(f"step {step + 1} of {steps}", flush=True)
        task.progress((step + 1) / steps, f"step {step + 1} of {steps}")
        time.sleep(float(params.get("pause", 0.2)))

task.run(main)
"""

_FAILS = """
from cronhare import task

def main(params):
    print("asking the bank")
    raise task.TransientError("the bank does not answer")

task.run(main)
"""

_HOSTILE = f"""
from cronhare import task
TEXT = {HOSTILE!r}

def main(params):
    print(TEXT, flush=True)
    task.progress(0.5, TEXT)
    raise task.PermanentError(TEXT)

task.run(main)
"""

_JOBS = f"""
[tasks.talks]
type = "report"
id = 1
command = [{sys.executable!r}, "talks.py"]

[tasks.fails]
type = "worker"
id = 1
command = [{sys.executable!r}, "fails.py"]

[tasks.is-hostile]
type = "worker"
id = 2
command = [{sys.executable!r}, "hostile.py"]

[notify.wall]
command = ["true"]

[schedules.nightly-invoices]
task = "talks"
description = "Invoices of the day before"
schedule = "30 2 * * *"
timezone = "Europe/Berlin"

[schedules.warm-cache]
task = "talks"
description = "Keeps what the shop asks for most"
every = "5s"
params = {{ steps = 3, pause = 0.1 }}

[schedules.charge-cards]
task = "fails"
description = "The bank is away"
schedule = "0 4 * * *"
retry = {{ attempts = 2, backoff = {{ type = "fixed", delay = 1000 }} }}

[schedules.hostile]
task = "is-hostile"
description = '''{HOSTILE}'''
schedule = "0 5 * * *"
params = {{ text = '''{HOSTILE}''' }}
"""

#: What a small shop has besides, so that there is something to see.
_JOBS += "".join(
    f"""
[schedules.{name}]
task = "talks"
description = "{description}"
schedule = "{minutes} * * * *"
"""
    for name, minutes, description in (
        ("stock-levels", "2-59/15", "From the warehouse to the shop"),
        ("search-index", "20", "What was edited since"),
        ("price-feed", "20,50", "For those who compare"),
    )
)


@attrs.frozen
class House:
    """The site, and a shell in the folder of the ledger."""

    site: Site
    shell: Shell

    def address(self, path: str) -> str:
        """Give the address of a page."""
        return f"http://127.0.0.1:{self.site.port}{path}"

    def run(self, name: str) -> int:
        """Run a schedule to its end; answers the execution."""
        said = self.shell("run", name, "--wait", "--json")
        return int(said.json()["id"])


@contextmanager
def house(folder: Path) -> Iterator[House]:
    """Start it, and end it."""
    for name, text in (("talks", _TALKS), ("fails", _FAILS), ("hostile", _HOSTILE)):
        (folder / f"{name}.py").write_text(text)
    (folder / "jobs.toml").write_text(_JOBS)
    found = House(Site(free_port()), Shell(folder))
    with _up(folder, found.site.port):
        wait_until(lambda: _is_there(found.shell), seconds=SECONDS, what="the ledger")
        with closing(connect(folder / "cronhare.sqlite3", timeout=SECONDS)) as ledger:
            write_past(ledger)
        wait_until(lambda: _answers(found.site), seconds=SECONDS, what="the first answer")
        yield found


@contextmanager
def _up(folder: Path, port: int) -> Iterator[None]:
    settings = {"CRON_WEB_ADDRESS": f"127.0.0.1:{port}", "TZ": "UTC"}
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "up", "--jobs", "jobs.toml"],
            cwd=folder,
            env=clean_environment() | settings,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(SECONDS)


def _is_there(shell: Shell) -> bool:
    said = shell("schedules", "--json")
    return said.status == 0 and "warm-cache" in said.out


def _answers(site: Site) -> bool:
    try:
        return site.get("/").status == 200
    except OSError:
        return False
