"""`cronhare up`, as a newcomer starts and stops it, and what runs at boot."""

import asyncio
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
from dependency_injector import providers

from cronhare.adapters.jobs.reader import read_jobs
from cronhare.adapters.sql.migrations.upgrade import upgrade
from cronhare.domain.schedules.keys import Boot
from cronhare.entrypoints.processes import embedded
from cronhare.entrypoints.processes.lifetime import StateReport
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.signals import ForcedExit, Shutdown
from cronhare.entrypoints.working import WorkingContainer
from cronhare.ports.records import ExecutionFilter
from tests.integration.shell import PROGRAM, Shell, clean_environment
from tests.services.finding import free_port, wait_until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]

SLOW = """
[tasks.slow]
id = 1
command = ["/bin/sh", "-c", "echo begun; sleep {seconds}; echo ended"]

[schedules.slow]
task = "slow"
on_start = {on_start}
schedule = "0 0 1 1 *"
"""


@attrs.define
class Up:
    path: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return self.path.read_text()

    def until(self, pattern: str, *, seconds: float = 60) -> str:
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.log, re.DOTALL):
            assert time.monotonic() < deadline, f"{pattern} did not come:\n{self.log}"
            time.sleep(0.05)
        return self.log

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


class Starter:
    """Starts systems in one folder, and ends what a test leaves running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Up] = []

    def __call__(
        self,
        jobs: Path | None,
        *options: str,
        command: str = "up",
        web: str = "--no-web",
        **settings: str,
    ) -> Up:
        named = [*(() if jobs is None else ("--jobs", str(jobs)))]
        named += [web] if command == "up" else []
        path = self.folder / f"{command}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [PROGRAM, command, *named, *options],
                cwd=self.folder,
                env=clean_environment() | settings,
                stderr=log,
                start_new_session=True,
            )
        up = Up(path, process)
        self.started.append(up)
        return up


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    for up in starter.started:
        if up.process.poll() is None:
            up.process.kill()
            up.process.wait()


def write_slow(folder: Path, *, seconds: float, on_start: bool = True) -> Path:
    path = folder / "jobs.toml"
    path.write_text(SLOW.format(seconds=seconds, on_start=str(on_start).lower()))
    return path


def test_a_newcomer_sees_success_retries_and_a_failure_for_good(start: Starter) -> None:
    address = f"127.0.0.1:{free_port()}"
    up = start(ROOT / "examples" / "jobs.toml", web="--web", CRON_WEB_ADDRESS=address)

    log = up.until("PERMANENTLY FAILED TASK.*Worker:FailsTwice.*Task completed successfully")
    up.until("Page and API at")

    line = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "
    place = r"execution=\d+, attempt=1, schedule=sales-report, node=\S+\] "
    child = r"\[Report:SalesReport:\d+\] \["
    assert re.search(line + child + place + ".+ sales from", log, re.MULTILINE)
    about = r"\[INFO\] \[type=report, id=1, scheduler_id=\d+, "
    assert re.search(line + about + place + "Processing", log, re.MULTILINE)
    assert "Scheduling retry 1/3 in 1000ms" in log
    assert "Scheduling retry 2/3 in 1000ms" in log
    assert up.end(signal.SIGINT) == 0
    assert up.log.rstrip().endswith("[INFO] Shutdown complete")
    assert shapes(documented_start()) - shapes(up.log) == set()
    assert up.log.count(" The ledger was brought to revision ") == 1


def documented_start() -> str:
    """Give what two pages show of a start; the README has only the schedule in brackets."""
    pages = [ROOT / "README.md", ROOT / "docs" / "reference" / "commands.md"]
    shown = [re.findall(r"(?ms)^```\n(\d{4}-.*?)^```", page.read_text()) for page in pages]
    assert [len(blocks) for blocks in shown] == [1, 1]
    return "".join(block for blocks in shown for block in blocks)


def shapes(log: str) -> set[str]:
    """Tell the lines of a log but for what differs between starts and what the README omits."""
    plain = re.sub(r"\[[^]]*schedule=([\w-]+)[^]]*\]", r"[… \1]", log.replace(f"{ROOT}/", ""))
    return {re.sub(r"[\d.,]+", "N", line) for line in plain.splitlines()}


def test_a_new_job_that_is_applied_beside_it_succeeds_at_its_first_attempt(
    start: Starter, tmp_path: Path
) -> None:
    jobs = write_slow(tmp_path, seconds=0.1)
    up, shell = start(jobs), Shell(tmp_path)
    up.until("Task completed successfully")
    new = '[tasks.new]\ncommand = ["true"]\n[schedules.new]\ntask = "new"\nevery = "1s"\n'
    jobs.write_text(jobs.read_text() + new)

    planned, applied = shell("plan", "jobs.toml"), shell("apply", "jobs.toml")
    up.until("schedule=new.*Task completed successfully")

    assert applied.status == 0, applied.err
    said = "with another version of jobs.toml than this one: give each this file and reload it"
    assert said in planned.out
    assert said in applied.out
    first = shell("executions", "list", "--schedule", "new", "--json").json()[-1]
    assert (first["state"], first["attempt"]) == ("succeeded", 1)
    assert up.log.count(f"Reloaded {jobs}") == 1


ELSEWHERE = "amqp://guest:guest@127.0.0.1:1/"


SECONDS = [
    ("up", "memory://", "another `cronhare up`, a scheduler or a worker works on link"),
    ("up", ELSEWHERE, "another `cronhare up`, whose broker is its own, works on link"),
    ("worker", ELSEWHERE, "another `cronhare up`, whose broker is its own, works on link"),
    ("scheduler", ELSEWHERE, "another `cronhare up`, whose broker is its own, works on link"),
]


def test_a_second_one_on_a_ledger_is_refused_while_the_first_lives(
    start: Starter, tmp_path: Path
) -> None:
    jobs = write_slow(tmp_path, seconds=0.1)
    first = start(jobs)
    first.until("ended")
    (tmp_path / "link").symlink_to("cronhare.sqlite3")
    ledger = {"CRON_DATABASE_URL": "sqlite:///link", "CRON_JOBS": str(jobs)}

    shell = Shell(tmp_path)
    seconds = [shell(command, **ledger, CRON_BROKER_URL=broker) for command, broker, _ in SECONDS]
    first.process.kill()
    first.process.wait()
    third = start(jobs)
    third.until("ended")

    for second, (_, _, told) in zip(seconds, SECONDS, strict=True):
        assert (second.status, told in second.err) == (2, True)
    assert third.end() == 0


def test_what_a_running_task_has_written_is_shown(start: Starter, tmp_path: Path) -> None:
    up = start(write_slow(tmp_path, seconds=120))
    number = re.search(r"execution=(\d+)[^\]]*\] begun", up.until(r"\] begun"))
    assert number is not None

    shell = Shell(tmp_path)
    early = shell("executions", "logs", number[1])
    while "begun" not in (late := shell("executions", "logs", number[1])).out:
        time.sleep(0.5)
    [told] = shell("executions", "logs", number[1], "--json").json()

    assert "Nothing was written" not in early.out + early.err
    assert "Attempt 1 still runs at" in early.err
    assert f"execution={number[1]}" in early.err
    assert re.search(r"attempt 1, stdout, up to 20", late.out)
    assert re.search(r"what it had written \d+ s ago is shown", late.err)
    assert told["running"] is True
    assert told["as_of"] is not None
    assert "begun" in told["stdout"]["head"]
    up.process.send_signal(signal.SIGINT)
    up.until("second signal")  # two at once would be one
    assert up.end(signal.SIGINT) == 0


def test_past_instants_run_on_request_once_and_say_when_they_were_due(
    start: Starter, tmp_path: Path
) -> None:
    (tmp_path / "jobs.toml").write_text(
        """
        [tasks.report]
        id = 1
        command = ["/bin/sh", "-c", "echo $CRON_DUE_AT >> due"]
        cwd = "."
        [schedules.report]
        task = "report"
        schedule = "0 8 1 * *"
        """
    )
    up, shell = start(tmp_path / "jobs.toml"), Shell(tmp_path)
    up.until("Running")
    year = ("--since", "2025-01-01", "--until", "2026-01-01", "--rate", "100", "--at-once", "4")

    assert shell("schedules", "backfill", "report", *year).status == 0
    up.until("Backfill 1 is done: 12 succeeded, 0 failed")
    watched = shell("schedules", "backfill", "report", *year, "--follow").out
    assert re.search(r"state +done", watched)
    up.until("Backfill 2 is done: 0 succeeded, 0 failed, 12 had a run before")

    due = sorted((tmp_path / "due").read_text().split())
    assert [moment[:16] for moment in due] == [f"2025-{n:02}-01T08:00" for n in range(1, 13)]
    runs = shell("executions", "list", "--json").json()
    assert {each["trigger"] for each in runs} == {"backfill"}
    told = shell("explain", "report", "--at", "2025-05-01T08:00Z").out
    assert "It ran and succeeded" in told
    assert "A backfill asked for it." in told
    assert "(backfill)" in shell("executions", "list").out
    assert up.end() == 0


def test_a_second_signal_interrupts_and_the_next_start_begins_again(
    start: Starter, tmp_path: Path
) -> None:
    up = start(write_slow(tmp_path, seconds=60))
    up.until(r"\] begun")
    up.process.send_signal(signal.SIGINT)
    up.until("second signal")

    assert up.end(signal.SIGINT) == 0
    again = start(write_slow(tmp_path, seconds=0.1, on_start=False))

    again.until("Task completed successfully")
    assert again.end() == 0


def test_what_a_killed_system_was_running_is_taken_up_at_the_next_start(
    start: Starter, tmp_path: Path
) -> None:
    policy = {"CRON_RETRY_DELAY_MS": "1000"}
    up = start(write_slow(tmp_path, seconds=60), **policy)
    up.until(r"\] begun")
    up.end(signal.SIGKILL)

    again = start(write_slow(tmp_path, seconds=0.1, on_start=False), **policy)

    log = again.until("Task completed successfully")
    assert ", 1 cut off" in log
    assert "Scheduling retry 1/3 in 1000ms" in log
    assert again.end() == 0


def test_a_schedule_is_followed_from_before_its_first_run_to_the_end_of_that(
    start: Starter, tmp_path: Path
) -> None:
    jobs, shell = tmp_path / "jobs.toml", Shell(tmp_path)
    script = "echo begun; until [ -e go ]; do sleep 0.1; done; printf 'e\\\\033[2Jnd'"
    jobs.write_text(
        f'[tasks.talk]\ncommand = ["sh", "-c", "{script}"]\n\n'
        '[schedules.talk]\ntask = "talk"\nmanual = true\n'
    )
    up = start(jobs)
    up.until("Running; Ctrl-C ends it")
    following, given_up = (shell.begin("logs", "talk", "-f") for _ in range(2))
    told = [each.stderr.readline() for each in (following, given_up) if each.stderr]
    given_up.send_signal(signal.SIGINT)
    nothing = given_up.communicate(timeout=60)
    ran = shell("executions", "list", "--json")
    assert shell("run", "talk").status == 0
    assert following.stdout is not None
    early = [following.stdout.readline() for _ in range(2)]
    (tmp_path / "go").touch()
    late, aside = following.communicate(timeout=60)
    lines = shell("executions", "logs", "talk", "-f", "--json").out.splitlines()

    says = "Schedule talk has not run yet: `cronhare run talk` begins one."
    assert told == [f"{says} Its first run is waited for; Ctrl-C ends that.\n"] * 2
    assert (given_up.returncode, nothing, ran.json()) == (130, ("", ""), [])
    assert early[0] == "--- attempt 1, stdout\n"
    # What was there before has no time; what comes is seen at one.
    assert re.fullmatch(r"(\d\d:\d\d:\d\dZ)? +begun\n", early[1]), early
    assert re.fullmatch(r"\d\d:\d\d:\d\dZ +e\\x1b\[2Jnd\n", late), late
    assert following.returncode == 0
    assert re.search(r"attempt 1 runs at .*\n.*it has succeeded\n", aside)
    *written, end = map(json.loads, lines)
    assert [one["text"] for one in written] == ["begun", "e\x1b[2Jnd"]
    assert (end["execution"], end["state"]) == (1, "succeeded")
    assert up.end(signal.SIGINT) == 0


def test_shutdown_waits_for_what_runs(start: Starter, tmp_path: Path) -> None:
    up = start(write_slow(tmp_path, seconds=1.5))
    up.until(r"\] begun")

    status = up.end()

    assert status == 0
    assert "[WARN] SIGTERM received, shutting down gracefully..." in up.log
    assert "Task completed successfully" in up.log
    assert up.log.rstrip().endswith("[INFO] Shutdown complete")


JOBS = """
[tasks.hello]
id = 1
command = ["echo", "hello at boot"]

[schedules.hello]
task = "hello"
on_boot = true
"""


def test_a_boot_before_the_schedule_came_has_no_run(start: Starter, tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(JOBS)

    up = start(file)
    up.until("Running")

    assert up.end() == 0
    assert Shell(tmp_path)("executions", "list", "--json").json() == []


async def no_change() -> None:
    """Read the jobs file again, which has not changed."""


class Host:
    def __init__(self, folder: Path, log: pytest.LogCaptureFixture) -> None:
        self._log, self._settings = log, Settings.read()
        file = folder / "jobs.toml"
        file.write_text(JOBS)
        self._jobs = read_jobs(file, policy=self._settings.policy)
        container = self._container()
        upgrade(container.engine())
        yesterday = container.claims().now() - timedelta(days=1)
        container.schedules().save(self._jobs.drafts, source=self._jobs.source, now=yesterday)
        container.engine().dispose()

    def _container(self) -> WorkingContainer:
        queues = embedded.queues_of([self._jobs])
        return WorkingContainer(settings=self._settings, tasks=self._jobs.tasks, queues=queues)

    async def up(self, boot: Boot) -> list[str]:
        """Be scheduler and worker until this boot is dealt with; give the keys of all runs."""
        container, shutdown = self._container(), Shutdown(ForcedExit(grace=10))
        container.boot.override(providers.Object(boot))
        embedded.prepare(container, [self._jobs])
        state, on_boot = StateReport(container), self._jobs.on_boot
        self._log.clear()
        process = asyncio.create_task(
            embedded.run(
                container, shutdown, state, concurrency=1, read_again=no_change, on_boot=on_boot
            )
        )
        await asyncio.to_thread(self._wait_for, "hello has its run of this boot")
        shutdown.requested.set()
        await process
        runs = container.records().executions(ExecutionFilter(schedule="hello"))
        container.engine().dispose()
        return [run.key for run in reversed(runs)]

    def _wait_for(self, text: str) -> None:
        wait_until(lambda: text in self._log.text, seconds=60, what=text, every=0.1)


def test_each_boot_has_one_run_however_often_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CRON_DATABASE_URL", f"sqlite:///{tmp_path}/ledger.db")
    caplog.set_level("INFO", logger="cronhare")
    host = Host(tmp_path, caplog)
    first, second = Boot("first", ago=60.0), Boot("second", ago=1.0)

    keys = [asyncio.run(host.up(boot)) for boot in (first, first, second)]

    assert keys == [[first.key], [first.key], [first.key, second.key]]
