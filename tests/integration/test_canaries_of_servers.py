"""A canary as user, password and key of real servers: in nothing that our processes show.

All goes well at first; then links break, servers refuse, and we are at fault.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote

import attrs
import pytest
from sqlalchemy import make_url

from cronhare.adapters.sql.tables.tables import metadata
from tests.integration.test_canaries import CANARY
from tests.production.plant import PATIENCE, Plant, Process, plant
from tests.services import rabbitmq as rabbitmq_service
from tests.services.finding import wait_until
from tests.services.mariadb import Server, run
from tests.services.proxy import Link, proxy_in_thread

pytestmark = [pytest.mark.integration, pytest.mark.long]  # by `make faults`

#: Each sign that means something in a URL.
PASSWORD = f"{CANARY}@:/?#%[é]"

#: It shows what it was given, and what stands beside it; then it waits to be looked at.
JOBS = """
[tasks.curious]
id = 1
command = ["/bin/sh", "-c", "env; tr '\\\\0' ' ' < /proc/$PPID/environ; echo shown; \
while test ! -e {go}; do sleep 0.05; done"]
pass_env = ["SEEN", "CRON_DATABASE_URL", "CRON_DATABASE_URL_FILE", "CRON_BROKER_URL", \
"CRON_MESSAGE_KEY", "CRON_MESSAGE_KEY_FILE"]

[schedules.curious]
task = "curious"
schedule = "0 8 29 2 *"
"""


#: A program of ours in which a method is at fault: in a loop, in a handler.
FAULTY = """
import sys
from cronhare.application.scheduling.dispatch import Dispatcher
from cronhare.application.worker.delivery import DeliveryHandler
from cronhare.entrypoints.cli.app import main

def fault(*_, **__):
    raise RuntimeError("a fault of ours")

{place} = fault
sys.argv = ["cronhare", *{command}]
main()
"""


@attrs.frozen
class House:
    """Servers that know the canary, behind links that can be cut, and our settings for them."""

    plant: Plant
    settings: dict[str, str]
    links: tuple[Link, Link]
    user: str
    go: Path

    def start(self, *command: str) -> Process:
        return self.plant.start(*command, **self.settings)

    def asked(self, *command: str, **changes: str) -> None:
        self.plant.arena.start(*command, **{**self.settings, **changes}).wait(PATIENCE)

    def wait_for(self, text: str, times: int = 1) -> None:
        wait_until(
            lambda: self.plant.arena.said().count(text) >= times,
            seconds=PATIENCE,
            every=0.1,
            what=text,
        )


@pytest.fixture
def house(
    own_rabbitmq: rabbitmq_service.Server, mariadb: Server, tmp_path: Path
) -> Iterator[House]:
    user = f"{CANARY}{token_hex(3)}"
    go = tmp_path / "go"
    with ExitStack() as stack:
        built = stack.enter_context(
            plant(tmp_path, own_rabbitmq, mariadb, JOBS.format(go=go), SEEN="yes")
        )
        database, broker = built.arena.database, make_url(built.broker_url)
        rabbitmq_service.let(own_rabbitmq, user, PASSWORD, str(broker.database), ".*", ".*", ".*")
        run(
            mariadb.url,
            f"CREATE USER '{user}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT ALL ON {database.database}.* TO '{user}'@'127.0.0.1'",
        )
        stack.callback(run, mariadb.url, f"DROP USER '{user}'@'127.0.0.1'")
        stack.callback(own_rabbitmq.control, "delete_user", user)
        (to_broker, one), (to_database, other) = (
            stack.enter_context(proxy_in_thread(int(url.port or 0))) for url in (broker, database)
        )
        who = f"{user}:{quote(PASSWORD, safe='')}"
        (tmp_path / "url").write_text(
            f"mysql+pymysql://{who}@127.0.0.1:{to_database}/{database.database}"
        )
        (tmp_path / "key").write_text(f"{CANARY}-the-key-of-all-messages-of-ours")
        settings = {
            "CRON_BROKER_URL": f"amqp://{who}@127.0.0.1:{to_broker}/{broker.database}",
            "CRON_DATABASE_URL": "",
            "CRON_DATABASE_URL_FILE": str(tmp_path / "url"),
            "CRON_MESSAGE_KEY_FILE": str(tmp_path / "key"),
        }
        yield House(built, settings, (one, other), user, go)


def family(*processes: Process) -> set[int]:
    """Find processes with all that come of them."""
    found = {process.pid for process in processes}
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def shown(pid: int, file: str) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/{file}").read_bytes()
    return b""


def rows(house: House) -> str:
    every = [house.plant.query(f"SELECT * FROM `{table}`") for table in metadata.tables]
    assert any(every)
    return repr(every)


def test_no_process_shows_it_and_no_task_gets_it(house: House) -> None:
    arena = house.plant.arena
    ours = [house.start("scheduler"), house.start("worker", "--jobs", "jobs.toml")]
    house.plant.wait_until_all_work(workers=1)
    arena.ask_for_runs(of=["curious"])
    house.wait_for('"message": "shown"')

    kin = family(*ours)
    children = kin - {process.pid for process in ours}
    assert len(children) >= 2, "the warden and the task"
    assert not [pid for pid in kin if CANARY.encode() in shown(pid, "cmdline")]
    assert not [pid for pid in children if CANARY.encode() in shown(pid, "environ")]
    (house.go).touch()
    for process in ours:
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGHUP)
    house.wait_for('"action": "reload"', times=2)
    for link in house.links:
        link.cut()
    arena.ask_for_runs(of=["curious"])
    wait_until(lambda: not arena.unfinished(), seconds=PATIENCE, every=0.1, what="the second run")
    for command in ("doctor", "doctor --json --probe", "settings", "settings --json"):
        house.asked(*command.split())
    house.asked("doctor", CRON_LOG_FORMAT="text")
    house.plant.stop()

    said = arena.said()
    assert "SEEN=yes" in said
    assert CANARY not in said
    assert CANARY not in rows(house)
    made = [path for path in arena.folder.rglob("*") if path.is_file()]
    holding = {path.name for path in made if CANARY.encode() in path.read_bytes()}
    assert holding == {"url", "key"}


def test_no_refusal_and_no_fault_of_ours_shows_it(
    house: House, own_rabbitmq: rabbitmq_service.Server
) -> None:
    arena, vhost = house.plant.arena, str(make_url(house.plant.broker_url).database)
    house.settings["CRON_LOG_FORMAT"] = "text"
    faults = {
        "Dispatcher.tick": ["scheduler"],
        "DeliveryHandler._begin": ["worker", "--jobs", "jobs.toml"],
    }
    for number, (place, command) in enumerate(faults.items()):
        name = f"faulty{number}.py"
        text = FAULTY.format(place=place, command=command)
        (arena.folder / name).write_text(text)
        house.plant.processes.append(arena.start_program(sys.executable, name, **house.settings))
    arena.ask_for_runs(of=["curious"])
    logs = [arena.logs / name for name in sorted(each.name for each in arena.logs.iterdir())]
    wait_until(
        lambda: all("a fault of ours" in log.read_text() for log in logs),
        seconds=PATIENCE,
        every=0.1,
        what="the faults",
    )
    rabbitmq_service.let(own_rabbitmq, house.user, PASSWORD, vhost, "^$", "^$", "^$")
    for process in house.plant.processes:
        process.kill()
    house.asked("doctor")
    refused = house.start("scheduler"), house.start("worker", "--jobs", "jobs.toml")
    house.wait_for("ACCESS_REFUSED", times=2)
    (arena.folder / "url").write_text((arena.folder / "url").read_text().replace("%3A", ""))
    house.asked("doctor")
    house.asked("schedules")
    for process in refused:
        process.kill()

    assert "this user" in arena.said()
    assert "Traceback" in arena.said()
    assert CANARY not in arena.said()
