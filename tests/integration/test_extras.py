"""What `cronhare` does alone, where no extra is installed, and what it says where one is needed."""

import re
import shlex
import signal
import subprocess
import sys
import time
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.integration.shell import PROGRAM, Said, clean_environment

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]

JOBS = """
[tasks.report]
command = ["true"]

[schedules.nightly]
task = "report"
schedule = "30 2 * * *"
"""

MYSQL = {"CRON_DATABASE_URL": "mysql+pymysql://user:secret@127.0.0.1:1/database"}
RABBITMQ = {"CRON_BROKER_URL": "amqp://user:secret@127.0.0.1:1/"}

#: Roads to a ledger: each other command takes that of one of these.
ROADS = (
    "db upgrade",
    "executions list",
    "doctor",
    "settings",
    "up --jobs jobs.toml",
)

#: Roads to a broker that several processes share.
PROCESSES = ("scheduler", "worker --jobs jobs.toml")


def names_in(lock: str) -> set[str]:
    text = (ROOT / "requirements" / lock).read_text()
    return set(re.findall(r"^([\w.-]+)==", text, flags=re.MULTILINE))


def modules_of_extras() -> set[str]:
    """Name what `pip install cronhare` would not bring, whatever is installed here."""
    extras = names_in("all-extras.lock") - names_in("runtime.lock")
    return {
        module
        for module, distributions in packages_distributions().items()
        if extras & {name.lower().replace("_", "-") for name in distributions}
    }


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("alone")
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({sorted(modules_of_extras())}))\n"
    (folder / "sitecustomize.py").write_text(hidden)
    return clean_environment() | {"PYTHONPATH": str(folder), "TZ": "UTC"}


def call(command: str, folder: Path, environment: dict[str, str]) -> Said:
    ran = subprocess.run(
        [PROGRAM, *shlex.split(command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Said(ran.returncode, ran.stdout, ran.stderr)


def needs(extra: str, said: Said) -> bool:
    """Tell whether a command says in one sentence which extra it needs, and how to have it."""
    name = "CRON_BROKER_URL" if extra == "rabbitmq" else "CRON_DATABASE_URL"
    sentence = (
        f"{name}: it needs the extra {extra}, which is not installed; "
        f"run: {sys.executable} -m pip install 'cronhare[{extra}]'"
    )
    text = said.out + said.err
    return sentence in text and "Traceback" not in text and "secret" not in text


def test_alone_it_runs_the_examples(tmp_path: Path, alone: dict[str, str]) -> None:
    command: list[str | Path] = [PROGRAM, "up", "--jobs", ROOT / "examples" / "jobs.toml"]
    with (tmp_path / "log").open("wb") as log:
        up = subprocess.Popen(command, cwd=tmp_path, env=alone, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while "Task completed successfully" not in (said := (tmp_path / "log").read_text()):
            assert time.monotonic() < deadline, said
            assert up.poll() is None, said
            time.sleep(0.05)
        while "No API and no page: it needs the extra web" not in (tmp_path / "log").read_text():
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.05)
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=60) == 0
    finally:
        up.kill()
        up.wait()


@pytest.mark.parametrize("road", [*ROADS, *PROCESSES])
def test_a_database_server_needs_its_extra(
    road: str, tmp_path: Path, alone: dict[str, str]
) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)
    broker = {"CRON_BROKER_URL": "amqp://127.0.0.1:1/"} if road in PROCESSES else {}

    said = call(road, tmp_path, alone | MYSQL | broker)

    assert said.status == 2
    assert needs("mysql", said)


@pytest.mark.parametrize("road", ["run nightly", *ROADS[-3:], *PROCESSES])
def test_a_broker_needs_its_extra(road: str, tmp_path: Path, alone: dict[str, str]) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)

    said = call(road, tmp_path, alone | RABBITMQ)

    assert said.status == 2
    assert needs("rabbitmq", said)


def test_the_http_api_needs_its_own(tmp_path: Path, alone: dict[str, str]) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)

    said = call("web --jobs jobs.toml", tmp_path, alone)

    assert said.status == 2
    assert "web: it needs the extra web, which is not installed; run: " in said.err
    assert f"{sys.executable} -m pip install 'cronhare[web]'" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    "road", ["check jobs.toml", "next '30 2 * * *'", "import crontab crontab", "--version"]
)
def test_what_asks_no_server_needs_no_extra(
    road: str, tmp_path: Path, alone: dict[str, str]
) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)
    (tmp_path / "crontab").write_text("30 2 * * * true\n")

    said = call(road, tmp_path, alone | MYSQL | RABBITMQ)

    assert (said.status, "needs the extra" in said.err) == (0, False)


@pytest.mark.parametrize("module", ["cronhare", "cronhare.task"])
def test_an_import_loads_no_library(module: str) -> None:
    code = (
        f"import sys; before = {{*sys.modules}}; import {module}; print(*{{*sys.modules}} - before)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    libraries = packages_distributions().keys() - {"cronhare"}
    assert not libraries & {name.partition(".")[0] for name in loaded}
    assert len(loaded) < 40
