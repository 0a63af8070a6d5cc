"""`cronhare up --app`: its functions run, beside a jobs file or alone, and code that changes."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.integration.shell import Shell
from tests.integration.test_two_files import running
from tests.integration.test_up import Starter, start
from tests.services import mariadb as mariadb_service
from tests.services.finding import wait_until
from tests.services.mariadb import Server as Mariadb
from tests.services.rabbitmq import Server as RabbitMQ

pytestmark = pytest.mark.integration
__all__ = ["start"]  # a fixture

SHOP = """
import time
from cronhare import App, Context, every

app = App("shop")


@app.task
def greet(ctx: Context, name: str) -> str:
    print("hello", name, "attempt", ctx.attempt, flush=True)
    time.sleep({seconds})
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
def shell(tmp_path: Path) -> Shell:
    """A folder with an app and a jobs file."""
    shell = Shell(tmp_path)
    shell.write(SHOP.format(seconds=0), "shop.py")
    shell.write(JOBS)
    return shell


def test_functions_run_beside_the_commands_of_a_file(start: Starter, shell: Shell) -> None:
    up = start(Path("jobs.toml"), "--app", "shop:app")
    up.until("hello ann attempt 1")
    up.until("tidied")
    up.until("schedule=greet-ann.*Task completed successfully")

    [node] = shell("nodes", "list", "--json").json()
    looked = shell("doctor", "--jobs", "jobs.toml", "--app", "shop:app").out
    shell.write(SHOP.format(seconds=0).replace("app.task", "app.task(timeout='1m')"), "shop.py")
    changed = shell("doctor", "--jobs", "jobs.toml", "--app", "shop:app").out

    assert (node["source"], node["digest"].count(", ")) == ("jobs.toml, shop", 1)
    assert "with another version of" not in looked
    assert "has schedules of" not in looked
    assert "with another version of shop than this one" in changed
    assert "has schedules of jobs.toml and shop" not in up.log
    assert up.end(signal.SIGINT) == 0
    assert up.log.rstrip().endswith("[INFO] Shutdown complete")


def test_a_kill_loses_no_run_of_a_function(start: Starter, shell: Shell) -> None:
    shell.write(SHOP.format(seconds=4), "shop.py")
    up = start(None, "--app", "shop:app")
    up.until("hello ann attempt 1")
    up.end(signal.SIGKILL)

    again = start(None, "--app", "shop:app")
    again.until("Taking up .*hello ann attempt 2", seconds=90)

    assert again.end() == 0


def test_a_hangup_reads_the_app_again_and_a_faulty_one_changes_nothing(
    start: Starter, shell: Shell
) -> None:
    up = start(None, "--app", "shop:app")
    up.until("hello ann attempt 1")

    shell.write("1 / 0", "shop.py")
    up.process.send_signal(signal.SIGHUP)
    up.until("Nothing was reloaded.*shop:app cannot be imported.*ZeroDivisionError")
    up.until("ZeroDivisionError.*hello ann attempt 1")

    shell.write(SHOP.format(seconds=0).replace('"hello"', '"goodbye"'), "shop.py")
    up.process.send_signal(signal.SIGHUP)
    up.until("Reloaded shop:app: the same tasks.*goodbye ann attempt 1")
    assert up.end() == 0


def test_code_that_changes_is_taken_at_once_for_development(start: Starter, shell: Shell) -> None:
    (shell.folder / "texts").mkdir()
    up = start(None, "--app", "shop:app", "--reload")
    up.until("hello ann attempt 1")

    shell.write("GREETING = 'welcome'\n", "texts/words.py")
    changed = SHOP.format(seconds=0).replace('"hello"', "GREETING")
    shell.write(f"from texts.words import GREETING\n{changed}", "shop.py")

    log = up.until("Code has changed: .*Reloaded shop:app.*welcome ann attempt 1")
    assert re.search(r"Code has changed: .*shop\.py", log)
    assert up.end() == 0


def test_an_app_whose_queue_is_new_waits_for_a_restart(start: Starter, shell: Shell) -> None:
    up = start(Path("jobs.toml"), "--app", "shop:app")
    up.until("hello ann attempt 1")

    shell.write(SHOP.format(seconds=0).replace("app.task", "app.task(queue='mails')"), "shop.py")
    shell.write(JOBS.replace("1s", "2s"))
    up.process.send_signal(signal.SIGHUP)

    up.until("shop:app: schedules.greet-ann: queue: mails is new, and is served from a start on")
    assert shell("schedules", "show", "tidy", "--json").json()["schedule"]["every_seconds"] == 1
    assert up.end() == 0


def test_a_worker_of_servers_has_both_and_takes_new_code_at_a_hangup(
    shell: Shell, rabbitmq: RabbitMQ, mariadb: Mariadb
) -> None:
    both = ("--jobs", "jobs.toml", "--app", "shop:app")
    with rabbitmq.vhost() as broker, mariadb_service.database(mariadb) as database:
        url = database.render_as_string(hide_password=False)
        settings = {"CRON_BROKER_URL": broker, "CRON_DATABASE_URL": url}
        assert shell("db", "upgrade", **settings).status == 0
        assert shell("apply", "jobs.toml", "--app", "shop:app", **settings).status == 0
        with running(shell, f"scheduler {' '.join(both)}", f"worker {' '.join(both)}", **settings):
            log = shell.folder / "1.log"
            wait_until(lambda: "hello ann" in log.read_text(), seconds=60, what="a function's run")
            wait_until(lambda: "tidied" in log.read_text(), seconds=60, what="a command's run")
            shell.write(SHOP.format(seconds=0).replace('"hello"', '"goodbye"'), "shop.py")
            older = shell("apply", "--app", "shop:app", **settings).out
            for node in shell("nodes", "list", "--json", **settings).json():
                os.kill(int(node["name"].rsplit("-", 2)[1]), signal.SIGHUP)
            wait_until(lambda: "goodbye ann" in log.read_text(), seconds=60, what="the new code")

    assert "with another version of shop than this one" in older
    assert "Reloaded jobs.toml and shop:app: targets: none" in (shell.folder / "0.log").read_text()
