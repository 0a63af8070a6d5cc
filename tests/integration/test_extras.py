"""What a wheel holds, what `cronhare` does without extras, and what it says where one is needed."""

import os
import re
import shlex
import signal
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.integration.shell import PROGRAM, Said, clean_environment
from tests.services.finding import wait_until

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
    log = tmp_path / "log"
    with log.open("wb") as file:
        up = subprocess.Popen(command, cwd=tmp_path, env=alone, stderr=file, start_new_session=True)
    try:
        for words in (
            "Task completed successfully",
            "No API and no page: it needs the extra web",
        ):
            wait_until(lambda: words in log.read_text(), seconds=60, what=words)  # noqa: B023
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=60) == 0, log.read_text()
    finally:
        up.kill()
        up.wait()


#: What a C compiler makes of vfork.c.
LIBRARY = "cronhare/adapters/process/vfork.so"


@pytest.mark.parametrize(
    ("compiler", "made", "machines"), [("cc", {LIBRARY}, "linux_"), ("false", set(), "any")]
)
def test_the_wheel_holds_all_of_src_under_one_name(
    tmp_path: Path, compiler: str, made: set[str], machines: str
) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(
        build, cwd=ROOT, check=True, capture_output=True, env=os.environ | {"CC": compiler}
    )

    (wheel,) = tmp_path.glob(f"*-py3-none-{machines}*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    files = (path for path in (ROOT / "src").rglob("*") if path.is_file())
    ours = {f"cronhare/{path.relative_to(ROOT / 'src')}" for path in files}
    sources = {name for name in ours if "__pycache__" not in name and name != LIBRARY}
    assert packed == sources | made


@pytest.mark.parametrize(
    ("extra", "road"),
    [
        *(("mysql", road) for road in (*ROADS, *PROCESSES)),
        *(("rabbitmq", road) for road in ("run nightly", *ROADS[-3:], *PROCESSES)),
    ],
)
def test_a_server_needs_its_extra(
    extra: str, road: str, tmp_path: Path, alone: dict[str, str]
) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS)
    settings = {"CRON_BROKER_URL": "amqp://127.0.0.1:1/"} if road in PROCESSES else {}
    settings |= MYSQL if extra == "mysql" else RABBITMQ

    said = call(road, tmp_path, alone | settings)

    assert said.status == 2
    assert needs(extra, said)


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
