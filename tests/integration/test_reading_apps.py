"""Reading an app in a child: in bounded time, and again once its code has changed."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhare.adapters.jobs.apps import read_app
from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, stamp_of
from cronhare.domain.retries.policy import RetryPolicy
from tests.integration.invocations import alive
from tests.integration.test_apps_in_commands import SHOP
from tests.services.finding import wait_until

pytestmark = pytest.mark.integration

Read = Callable[..., JobsFile]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Read an app of this code, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def reading(code: str, *, seconds: float = 60) -> JobsFile:
        (tmp_path / "shop.py").write_text(code)
        return read_app("shop:app", policy=RetryPolicy(), environment=os.environ, timeout=seconds)

    return reading


def test_an_import_that_hangs_is_ended_with_what_it_has_begun(read: Read) -> None:
    began, hang = time.monotonic(), "subprocess.Popen(['sleep', '600']).wait()"

    with pytest.raises(JobsFileInvalid, match=r"(?s)not imported within 1 s.*so far") as refused:
        read(f"import subprocess\nprint('so far', flush=True)\n{hang}", seconds=1)

    assert time.monotonic() - began < 10
    assert "belongs into a task" in str(refused.value)


def test_an_import_that_meddles_with_its_process_is_read_all_the_same(
    read: Read, tmp_path: Path
) -> None:
    meddling = """
import os, pathlib, subprocess, sys, threading, time, types
print("x" * 10_000_000)
sys.stdout.close()
sys.stderr = None
os.close(1)
child = subprocess.Popen(["sleep", "600"])
pathlib.Path("child").write_text(str(child.pid))
threading.Thread(target=time.sleep, args=(600,)).start()


class Lazy(types.ModuleType):
    def __getattr__(self, name):
        raise RuntimeError(name)


sys.modules["lazy"] = Lazy("lazy")
sys.modules["none"] = None
os.chdir("/")
@app.task(cwd=pathlib.Path("/srv"))
def more() -> None: ...
"""
    file = read(SHOP + meddling, seconds=20)

    assert [(task.name, str(task.cwd)) for task in file.tasks][1:] == [("more", "/srv")]
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not alive(child), seconds=10, what="the end of what it has begun")


def test_tables_without_an_end_are_refused(read: Read) -> None:
    huge = SHOP + "\napp.schedule('huge', refresh.bind(region='x' * 9_000_000), every('1m'))"

    with pytest.raises(JobsFileInvalid, match="has tables of more than 8 MiB"):
        read(huge)


def test_the_stamp_of_an_app_changes_with_its_modules_and_not_with_libraries(
    read: Read, tmp_path: Path
) -> None:
    (tmp_path / "prices.py").write_text("VAT = 19\n")
    file = read(f"import attrs, json, prices\n{SHOP}")

    assert [path.name for path in file.files] == ["prices.py", "shop.py"]
    assert stamp_of(*file.files) == file.stamp
    (tmp_path / "prices.py").write_text("VAT = 7.0\n")
    assert stamp_of(*file.files) != file.stamp
    assert read(f"import attrs, json, prices\n{SHOP}").version.digest != file.version.digest
