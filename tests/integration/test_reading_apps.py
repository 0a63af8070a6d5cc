"""Reading an app in a child: in bounded time, and again once its code has changed."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhare.adapters.jobs.apps import read_app
from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, stamp_of
from cronhare.domain.retries.policy import RetryPolicy
from cronhare.domain.schedules.python_call import AppPlace, Executor
from tests.integration.test_apps_in_commands import SHOP

pytestmark = pytest.mark.integration

Read = Callable[..., JobsFile]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Read an app of this code, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def reading(code: str, *, seconds: float = 60) -> JobsFile:
        (tmp_path / "shop.py").write_text(code)
        return read_app(
            AppPlace("shop:app"), policy=RetryPolicy(), environment=os.environ, timeout=seconds
        )

    return reading


def test_an_app_says_what_a_jobs_file_would_say(read: Read) -> None:
    file = read(SHOP)

    [task] = file.tasks
    assert (task.name, task.source, task.timeout.total_seconds()) == ("refresh", "shop", 300)
    assert task.python is not None
    assert (task.python.app, task.python.executor) == ("shop:app", Executor.FORK)
    assert [draft.name for draft in file.drafts] == ["refresh-eu", "refresh-us", "shop:refresh"]
    assert str(file.path) == "shop:app"


@pytest.mark.parametrize("hang", ["time.sleep(600)", "subprocess.Popen(['sleep', '600']).wait()"])
def test_an_import_that_hangs_is_ended(read: Read, hang: str) -> None:
    began = time.monotonic()

    with pytest.raises(JobsFileInvalid, match=r"(?s)not imported within 1 s.*so far") as refused:
        read(f"import subprocess, time\nprint('so far', flush=True)\n{hang}", seconds=1)

    assert time.monotonic() - began < 10
    assert "belongs into a task" in str(refused.value)


def test_an_import_that_meddles_with_its_streams_and_modules_is_read_all_the_same(
    read: Read,
) -> None:
    meddling = """
import os, pathlib, sys, types
sys.stdout.close()
sys.stderr = None
os.close(1)
if os.fork() == 0:
    os.execlp("sleep", "sleep", "600")


class Lazy(types.ModuleType):
    def __getattr__(self, name):
        raise RuntimeError(name)


sys.modules["lazy"] = Lazy("lazy")
sys.modules["none"] = None
os.chdir("/")
@app.task(cwd=pathlib.Path("/srv"))
def more() -> None: ...
"""
    file = read(SHOP.replace("app.schedule(", "None and app.schedule(") + meddling, seconds=20)

    assert [(task.name, str(task.cwd)) for task in file.tasks][1:] == [("more", "/srv")]


def test_numbers_beyond_those_of_a_file_are_refused_with_their_places(read: Read) -> None:
    words = "params={'n': 2**70}, jitter=float('nan'), notify=[b'x']"
    table = "app._tables['schedules']['refresh-us'].update"

    with pytest.raises(JobsFileInvalid) as refused:
        read(f"{SHOP}\n{table}({words.partition(',')[0]})")
    with pytest.raises(JobsFileInvalid) as told:
        read(f"{SHOP}\n{table}({words})")

    assert "schedules.refresh-us: params.n: is no whole number of 64 bits" in str(refused.value)
    assert "schedules.refresh-us.jitter: nan is no number that JSON has" in str(told.value)
    assert "schedules.refresh-us.notify[0]: is of type bytes" in str(told.value)


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
