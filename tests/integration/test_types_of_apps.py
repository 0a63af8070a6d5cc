"""Type checkers accept the example, and refuse in the same lines what it must not say."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "shop"

#: Each call that is wrong says so.
CALLS = """
from datetime import datetime

from cronhare import App, Context, every
from shop.jobs import refresh, send

refresh.bind(region=5)  # wrong
refresh.bind()  # wrong
refresh.bind("eu", limit=10)
refresh.bind("eu", limt=10)  # wrong
refresh("eu")  # wrong
send.bind(order="7")  # wrong
send.bind(order=7)
app = App("other")
app.schedule("x", refresh.bind("eu"), "0 8 * * *")  # wrong
app.schedule("x", refresh, every("1h"))  # wrong
app.schedule("x", refresh.bind("eu"), every("1h"), missfire="once")  # wrong
app.schedule("x", refresh.bind("eu"), every("1h"), overlap="sometimes")  # wrong


@app.task(executor="thread")  # wrong
def outside() -> None: ...


@app.task(timeout="5m")
def total(ctx: Context, numbers: list[int]) -> int:
    return sum(numbers)


total.bind([1, 2])
total.bind(["a"])  # wrong
number: int = total(Context(due_at=datetime.now()), [1])
text: str = total(Context(due_at=datetime.now()), [1])  # wrong
send.bind(order=7).enqueue(key="mail:7", delay="5m")
send.bind(order=7).enqueue(kee="mail:7")  # wrong
rows: int = total.bind([1]).enqueue().result()
name: str = total.bind([1]).enqueue().result()  # wrong
"""


def by_mypy(folder: Path) -> set[int]:
    files = [folder / "calls.py", SHOP / "shop" / "jobs.py", SHOP / "tests" / "test_jobs.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", *files],
        cwd=folder,
        env={"MYPYPATH": str(SHOP)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert all(line.startswith("calls.py:") for line in lines), done.stdout
    return {int(line.split(":")[1]) for line in lines}


def by_pyright(folder: Path) -> set[int]:
    settings = {
        "typeCheckingMode": "standard",
        "extraPaths": [str(ROOT / ".namespace"), str(SHOP)],
        "include": ["calls.py", str(SHOP)],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    basedpyright = Path(sys.executable).with_name("basedpyright")
    done = subprocess.run(
        [basedpyright, "--outputjson", "--pythonpath", sys.executable],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert all(Path(each["file"]).name == "calls.py" for each in found), done.stdout
    return {each["range"]["start"]["line"] + 1 for each in found}


def test_both_type_checkers_refuse_the_same_calls_and_accept_the_example(tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(CALLS)
    wrong = {n for n, line in enumerate(CALLS.splitlines(), 1) if re.search(r"# wrong$", line)}

    assert by_mypy(tmp_path) == wrong
    assert by_pyright(tmp_path) == wrong
