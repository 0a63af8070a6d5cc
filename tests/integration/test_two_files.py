"""Two crontabs, imported and applied to one ledger: nobody runs a command of the other's."""

import re
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from cronhare.domain.execution import State
from tests.integration.shell import Shell
from tests.integration.test_up import Starter, start
from tests.production.plant import SCHEDULER, plant
from tests.services.finding import wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration

#: Two tables of cron, each with one command; it writes down which.
TABLES = {"jobs": "0 0 1 1 * echo jobs >> jobs.ran", "user": "0 0 1 1 * echo user >> user.ran"}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder with both tables, imported as `jobs.toml` and `user.toml`."""
    shell = Shell(tmp_path)
    for name, table in TABLES.items():
        shell.write(f"HOME={tmp_path}\n{table}\n", name)
        said = shell("import", "crontab", "--kind", "user", name, "-o", f"{name}.toml")
        assert said.status == 0, said.err
        imported = (
            (tmp_path / f"{name}.toml").read_text().replace("schedules.echo", f"schedules.{name}")
        )
        shell.write(imported, f"{name}.toml")
    return shell


def test_of_two_workers_on_one_queue_each_runs_its_own_file_alone(
    shell: Shell, rabbitmq: RabbitMQ, mariadb: Mariadb
) -> None:
    jobs = (shell.folder / "jobs.toml").read_text()
    with plant(shell.folder, rabbitmq, mariadb, jobs) as built:
        arena = built.arena
        assert shell("apply", "user.toml", **arena.settings).status == 0
        for name in ("jobs", "jobs", "user", "user") * 5:  # workers that take turns meet both
            arena.ask_for_runs(of=[name])
        built.start(*SCHEDULER)
        for name in TABLES:
            built.start("worker", "--jobs", f"{name}.toml")
        wait_until(lambda: not arena.unfinished(), seconds=180, what="the end of all runs")
        rows = arena.executions()
        built.stop()

    done = Counter((row.schedule_name, row.state) for row in rows)
    for name in TABLES:
        succeeded, ran = done[name, State.SUCCEEDED], shell.folder / f"{name}.ran"
        assert (ran.read_text().split() if ran.exists() else []) == [name] * succeeded
        assert succeeded + done[name, State.FAILED] == 10
    assert {state for _, state in done} == {State.SUCCEEDED, State.FAILED}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"worker"', '"worker"\nid = 1', "tasks.echo: worker 1 is also the number of "),
        (".user]", ".jobs]", "schedules.jobs: is the name of a schedule of jobs.toml, too"),
    ],
    ids=["number", "name"],
)
def test_a_number_or_a_name_that_two_files_give_is_refused_and_nothing_is_replaced(
    shell: Shell, before: str, after: str, said: str
) -> None:
    for name in TABLES:
        path = shell.folder / f"{name}.toml"
        path.write_text(path.read_text().replace(before, after))
    shell("db", "upgrade")
    assert shell("apply", "jobs.toml").status == 0

    refusals = [shell(command, "user.toml") for command in ("plan", "apply")]
    refusals.append(shell("check", "jobs.toml", "user.toml"))

    assert [(refusal.status, said in refusal.err) for refusal in refusals] == [(2, True)] * 3
    [kept] = shell("schedules", "--json").json()
    assert (kept["name"], kept["source"]) == ("jobs", "jobs.toml")


def test_files_that_the_ledger_would_take_for_one_are_refused(shell: Shell) -> None:
    text = (shell.folder / "jobs.toml").read_text()
    shell.write(f'source = "jobs.toml"\n{text}', "copy.toml")

    alone, beside = shell("check", "copy.toml"), shell("check", "jobs.toml", "copy.toml")

    assert (alone.status, beside.status) == (0, 2)
    assert "copy.toml: source: jobs.toml is jobs.toml already" in beside.err


def test_a_schedule_moves_to_another_file_as_the_refusal_says(shell: Shell) -> None:
    ours, theirs = ((shell.folder / f"{name}.toml").read_text() for name in TABLES)
    shell.write(theirs.replace("[schedules.user]", "[schedules.jobs]"), "user.toml")
    shell("db", "upgrade")
    shell("apply", "jobs.toml")
    shell.write(ours.replace("[schedules.jobs]", "[schedules.other]"), "jobs.toml")
    shell("apply", "jobs.toml")
    refused = shell("apply", "user.toml")

    [change] = re.findall(r"UPDATE [^.]*'…'", " ".join(refused.err.split()))
    with closing(sqlite3.connect(shell.folder / "cronhare.sqlite3")) as ledger, ledger:
        ledger.execute(change.replace("…", "jobs"))

    assert (refused.status, shell("apply", "user.toml").status) == (2, 0)
    kept = {each["name"]: each["source"] for each in shell("schedules", "--json").json()}
    assert kept == {"jobs": "user.toml", "other": "jobs.toml"}


__all__ = ["start"]  # a fixture

SHOP = """
from cronhare import App, Context, every

app = App("shop")


@app.task
def greet(ctx: Context, name: str) -> str:
    print("hello", name, "attempt", ctx.attempt, flush=True)
    return "greeted"


app.schedule("greet-ann", greet.bind(name="ann"), every("1s"), overlap="skip")
"""

JOBS = """
[tasks.tidy]
command = ["echo", "tidied"]

[schedules.tidy]
task = "tidy"
every = "1s"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Shell:
    """A folder with an app and a jobs file."""
    found = Shell(tmp_path)
    found.write(SHOP, "shop.py")
    found.write(JOBS)
    return found


def test_functions_run_beside_the_commands_of_a_file(start: Starter, shop: Shell) -> None:
    up = start(Path("jobs.toml"), "--app", "shop:app")
    up.until("hello ann attempt 1")
    up.until("tidied")
    up.until("schedule=greet-ann.*Task completed successfully")

    [node] = shop("nodes", "list", "--json").json()
    looked = shop("doctor", "--jobs", "jobs.toml", "--app", "shop:app").out
    shop.write(SHOP.replace("app.task", "app.task(timeout='1m')"), "shop.py")
    changed = shop("doctor", "--jobs", "jobs.toml", "--app", "shop:app").out

    assert (node["source"], node["digest"].count(", ")) == ("jobs.toml, shop", 1)
    assert "with another version of" not in looked
    assert "has schedules of" not in looked
    assert "with another version of shop than this one" in changed
    assert "has schedules of jobs.toml and shop" not in up.log
    assert up.end(signal.SIGINT) == 0
    assert up.log.rstrip().endswith("[INFO] Shutdown complete")


def test_a_hangup_reads_the_app_again_and_a_faulty_one_changes_nothing(
    start: Starter, shop: Shell
) -> None:
    up = start(None, "--app", "shop:app")
    up.until("hello ann attempt 1")

    shop.write("1 / 0", "shop.py")
    up.process.send_signal(signal.SIGHUP)
    up.until("Nothing was reloaded.*shop:app cannot be imported.*ZeroDivisionError")
    up.until("ZeroDivisionError.*hello ann attempt 1")

    shop.write(SHOP.replace('"hello"', '"goodbye"'), "shop.py")
    up.process.send_signal(signal.SIGHUP)
    up.until("Reloaded shop:app: the same tasks.*goodbye ann attempt 1")
    assert up.end() == 0


def test_code_that_changes_is_taken_at_once_for_development(start: Starter, shop: Shell) -> None:
    (shop.folder / "texts").mkdir()
    up = start(None, "--app", "shop:app", "--reload")
    up.until("hello ann attempt 1")

    shop.write("GREETING = 'welcome'\n", "texts/words.py")
    changed = SHOP.replace('"hello"', "GREETING")
    shop.write(f"from texts.words import GREETING\n{changed}", "shop.py")

    log = up.until("Code has changed: .*Reloaded shop:app.*welcome ann attempt 1")
    assert re.search(r"Code has changed: .*shop\.py", log)
    assert up.end() == 0
