"""An app in Python, as a child and as commands read it: beside a jobs file or instead of one."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cronhare.adapters.jobs.apps import read_app
from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, stamp_of
from cronhare.domain.retries.policy import RetryPolicy
from tests.integration.invocations import alive
from tests.integration.shell import Shell
from tests.services.finding import wait_until

pytestmark = pytest.mark.integration

SHOP = """
from cronhare import App, Context, cron, every

app = App("shop")


@app.task(timeout="5m")
def refresh(ctx: Context, region: str) -> int:
    return 42


app.schedule("refresh-eu", refresh.bind(region="eu"), cron("0 8 * * *", tz="Europe/Berlin"))
app.schedule("refresh-us", refresh.bind(region="us"), every("30s"))
print("imported")
"""

JOBS = """
[tasks.tidy]
command = ["true"]

[schedules.tidy]
task = "tidy"
schedule = "0 4 * * *"
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder with an app and a jobs file, and an empty ledger."""
    shell = Shell(tmp_path)
    (tmp_path / "shop").mkdir()
    shell.write(SHOP, "shop/jobs.py")
    shell.write(JOBS)
    assert shell("db", "upgrade").status == 0
    return shell


def schedules(shell: Shell) -> dict[str, Any]:
    """The ledger's schedules by their names."""
    return {each["name"]: each for each in shell("schedules", "--json").json()}


def test_an_app_is_checked_planned_and_applied_as_a_jobs_file_is(shell: Shell) -> None:
    checked = shell("check", "--app", "shop.jobs:app")
    planned = shell("plan", "--app", "shop.jobs:app")
    applied = shell("apply", "--app", "shop.jobs:app")
    again = shell("plan", "--app", "shop.jobs:app")

    assert checked.out.startswith("shop.jobs:app: 1 task and 3 schedules, no faults")
    assert "cronhare plan --app shop.jobs:app" in checked.out
    assert "To make it so: cronhare apply --app shop.jobs:app" in planned.out
    assert "3 added, 0 changed" in applied.out
    assert "0 added, 0 changed, 0 disabled, 3 as they were" in again.out
    assert {name: each["source"] for name, each in schedules(shell).items()} == dict.fromkeys(
        ["refresh-eu", "refresh-us", "shop:refresh"], "shop"
    )


def test_what_an_operator_paused_and_what_is_of_other_sources_survives_an_app(shell: Shell) -> None:
    assert shell("apply", CRON_APP="shop.jobs:app").status == 0
    assert shell("apply", "jobs.toml").status == 0
    assert shell("schedules", "pause", "refresh-us", "--reason", "too dear").status == 0
    shell.write(SHOP.replace('"30s"', '"40s"').replace("0 8 * * *", "0 9 * * *"), "shop/jobs.py")

    applied = shell("apply", "--app", "shop.jobs:app")

    found = schedules(shell)
    assert "0 added, 2 changed, 0 disabled" in applied.out
    assert (found["refresh-us"]["every_seconds"], found["tidy"]["status"]) == (40, True)
    assert found["refresh-us"]["pause"]["reason"] == "too dear"


def test_a_file_and_an_app_are_applied_each_under_its_own_source(shell: Shell) -> None:
    both = ("jobs.toml", "--app", "shop.jobs:app")

    checked, planned, applied = (shell(each, *both) for each in ("check", "plan", "apply"))

    assert (planned.status, applied.status) == (0, 0), planned.err + applied.err
    assert "has schedules of" not in checked.out + planned.out + applied.out
    assert "To make it so: cronhare apply jobs.toml" in planned.out
    assert applied.out.count("Applied to") == 2
    assert {each["source"] for each in schedules(shell).values()} == {"jobs.toml", "shop"}


def test_a_task_with_a_new_name_is_noted_unless_it_keeps_the_old_one(shell: Shell) -> None:
    assert shell("apply", "--app", "shop.jobs:app").status == 0
    shell.write(
        SHOP.replace("refresh(ctx", "renew(ctx").replace("refresh.", "renew."), "shop/jobs.py"
    )
    renamed = shell("plan", "--app", "shop.jobs:app")
    aliased = (
        (shell.folder / "shop/jobs.py").read_text().replace("5m", '5m", aliases=["refresh"], x="')
    )
    shell.write(aliased.replace(', x=""', ""), "shop/jobs.py")
    kept = shell("plan", "--app", "shop.jobs:app")

    assert "tasks.renew: looks like a rename of refresh: aliases = " in renamed.out
    assert (kept.status, "rename" in kept.out) == (0, False), kept.err


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("from cronhare import App\nshop = App('shop')", "bad:app is no App; there is: bad:shop"),
        ("import os; os.kill(os.getpid(), 9)", "its import was ended by signal 9: Killed"),
        (
            SHOP
            + "\napp.schedule('more', refresh.bind(region='x'), every('1m'), env={'A': object()})",
            "schedules.more.env.A: is of type object, which JSON has not",
        ),
        (SHOP + "\nrefresh.bind(rgeion='x')", "TypeError"),
    ],
    ids=range(5),
)
def test_an_app_that_cannot_be_read_is_refused_with_its_place_and_nothing_is_applied(
    shell: Shell, code: str, told: str
) -> None:
    shell.write(code, "bad.py")

    applied = shell("apply", "--app", "bad:app")

    assert applied.status == 2
    assert applied.err.startswith("cronhare: bad:app: "), applied.err
    assert told in applied.err
    assert "cronhare/entrypoints" not in applied.err, "a traceback has the user's frames alone"
    assert "Nothing was applied. Fix the app, then run: cronhare check --app bad:app" in applied.err
    assert schedules(shell) == {}


def test_an_app_that_enqueues_into_another_ledger_is_warned_of(shell: Shell) -> None:
    shell.write(SHOP.replace('"shop")', '"shop", ledger="sqlite:///other.sqlite3")'), "far.py")
    shell.write(SHOP.replace('"shop")', '"shop", ledger="oracle://u:secret@host/x")'), "bad.py")

    told, same = (
        shell("check", "--app", "far:app", **settings).err
        for settings in ({}, {"CRON_DATABASE_URL": "sqlite:///other.sqlite3"})
    )
    refused = shell("check", "--app", "bad:app")

    assert (
        "far:app: its programs enqueue into sqlite:///other.sqlite3, and here sqlite:///cr" in told
    )
    assert same == ""
    assert (refused.status, "secret" in refused.err) == (2, False)
    assert "its App(ledger=…): the database URL " in refused.err


def test_doctor_and_delete_know_an_app(shell: Shell) -> None:
    assert shell("apply", "--app", "shop.jobs:app").status == 0
    looked = shell("doctor", "--app", "shop.jobs:app", "--json").json()
    shell.write(SHOP.replace('app.schedule("refresh-us"', '("refresh-us"'), "shop/jobs.py")
    assert shell("apply", "--app", "shop.jobs:app").status == 0

    unknown = shell("schedules", "delete", "refresh-us")
    deleted = shell("schedules", "delete", "refresh-us", "--app", "shop.jobs:app")

    assert not [each for each in looked["findings"] if "without a task" in each["what"]]
    assert unknown.status == 2
    assert deleted.status == 0, deleted.err


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


def test_an_import_that_ends_its_interpreter_is_a_fault_of_the_app(read: Read) -> None:
    with pytest.raises(JobsFileInvalid, match=r"(?s)gave an answer that cannot be read.*so far"):
        read("import os\nprint('so far', flush=True)\nos._exit(0)")


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
